"""Engines that stand in for SGLang, vLLM and TokenSpeed: faithful when asked for load, scripted when asked for a fault."""
