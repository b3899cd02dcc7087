"""From a policy document to a policy.

pipeline     runs everything, and writes the files; `recording` makes the review
context      the inputs of a translation, apart from the model
tools        the tools of an agent, from a file, a module or an MCP server
samples      calls, shapes and failures from recorded calls, and the facts of the host
reference    the language page for a model
requests     asks a model, and reads its answer
stages       the stages that ask the model: `survey`, drafts, readings
drafting     an author of drafts; `drafts` has their types
examination  the checks of a draft before anybody reads it, all in `checks`
readings     an independent reading of the cases; two readings of a sentence: proved equal, or a question
assembly     the drafts as one policy file with its cases
change       what stands of an earlier translation for a new version of the document
review       the dialogue and the page on which a person confirms
imports      rules of other languages and tools, in place of a document
report       the report, in the formats of `report_formats`
"""
