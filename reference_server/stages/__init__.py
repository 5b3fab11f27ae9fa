"""One room per stage of the pipeline; `reference_server.pipeline` shows their order."""
