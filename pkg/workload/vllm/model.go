package vllm

// DefaultModel is served by a test that names no model, as in CloudAI.
const DefaultModel = defaultModel
