"""Models behind an address, asked in the Open Inference Protocol v2 (Triton, MLServer, KServe, OpenVINO)."""
