"""From a policy document to a policy.

context      what a translation is given
reference    the language page for a model
tools/       the tools of an agent, from a file, a module or an MCP server
samples/     what recorded calls show
drafting/    rules that a model writes for some sentences
examination/ the checks of a draft before anybody reads it; each file in checks/ is one
readings/    two drafts of the same sentences: proved equal, or a question
assembly/    the drafts as one policy file with its cases
change/      what stands of a translation for a new version of the document
review/      the dialogue and the page on which a person confirms
report/      the report in several formats
"""
