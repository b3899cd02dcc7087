"""The engines of an audit: one module each, with a function `judge`, which is a `PartitionJudge`."""
