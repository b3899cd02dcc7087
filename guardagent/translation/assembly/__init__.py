"""The assembly of drafts to one policy file.

assembly      assemble: the file, its cases, and the problems of both
part          a draft: its rules and declarations
names         the names in the text of a rule
declarations  one meaning for each declared name
rules         unique ids; the same rule once
frame         the keys that no draft has
layout        the content as YAML
policy_lines  an earlier file in lines, which are kept
cases         the verdicts of the whole policy on the cases of each rule
"""

from guardagent.translation.assembly.assembly import PolicyAssembly, assemble
from guardagent.translation.assembly.policy_lines import PolicyLines, read_policy_lines

__all__ = ["PolicyAssembly", "PolicyLines", "assemble", "read_policy_lines"]
