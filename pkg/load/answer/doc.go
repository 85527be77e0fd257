// Package answer reads the answer of an OpenAI-compatible server to one request, and decides its
// [Outcome]. The answer is a stream of completions, of chat or of the Responses API, or one JSON
// document with embeddings, pooled values or ranks.
//
// It is given the bytes of a connection as they arrive, cut anywhere, with the time of their
// arrival, and looks at no clock and no connection itself. It reads HTTP/1.1, server-sent
// events, and of each event's JSON only what a load client needs, in place: tens of thousands
// of events a second pass through it. BenchmarkEvent: 6 times as fast as encoding/json.
//
// Example:
//
//	var r answer.Reader
//	r.Reset(&outcome, answer.Wanted{Tokens: 128})
//	over, err := r.Feed(p, now) // for each read, until it is over
//	r.Close(now, err)
package answer
