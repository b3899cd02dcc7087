"""From a policy document to a policy: `document` numbers its sentences, `tools` and `samples` describe the agent."""
