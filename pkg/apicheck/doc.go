// Package apicheck asks an OpenAI-compatible server the ten requests that clients rely on, and
// holds each answer against what the API promises: a list of models, completions, chat, a stream
// that ends, log probabilities, stop strings, echo, several choices.
//
// It checks that answers are right, not that they are fast: that is the work of package load. It
// knows nothing of a server beyond its API, and asks one request at a time.
//
// Example:
//
//	server, err := apicheck.Open(ctx, apicheck.Options{Address: "localhost:8000", Timeout: time.Minute})
//	…
//	outcomes, err := server.Run(ctx, apicheck.Checks())
package apicheck
