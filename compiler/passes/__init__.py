"""Graph passes: plain functions Graph -> Graph, one a file; `canonicalize` is their order."""
