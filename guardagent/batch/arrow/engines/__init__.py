"""The engines of an audit: one module each, with a function `judge` (see `guardagent.batch.arrow.job.Judge`)."""
