//! Tables that come and go as files: checkpoints and ingests.

pub(crate) mod checkpoint;
pub(crate) mod ingest;
