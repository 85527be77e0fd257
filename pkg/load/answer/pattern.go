package answer

import "bytes"

// A pattern is a payload that carries one text, and what was read of it. The next token event of an
// answer mostly differs in the text alone, so that comparing bytes takes the place of reading JSON:
// BenchmarkPattern.
type pattern struct {
	payload []byte // without bytes there is no pattern
	text    int    // where the text begins, behind its quote
	rest    int    // where what follows the text begins, with its quote
	chunk   chunk  // read of it, but the text
}

// patternLimit bounds the payloads that are kept, in bytes: one buffer for each connection.
const patternLimit = 4 << 10

// read is readChunk, with the last payload for a pattern.
func (k *pattern) read(payload []byte) (chunk, error) {
	if text := k.match(payload); text != nil {
		c := k.chunk
		c.text = text
		return c, nil
	}
	c, err := readChunk(payload)
	k.payload = k.payload[:0]
	if err == nil && c.texts == 1 && c.text != nil && c.finish == nil && c.usage == nil && len(payload) <= patternLimit {
		k.payload, k.chunk = append(k.payload, payload...), c
		k.text, k.rest, k.chunk.text = c.at+1, c.at+len(c.text)-1, nil
	}
	return c, err
}

// match returns the text of a payload, as a JSON string, if all the rest is as in the pattern. A text
// that has to be read to find its end matches nothing.
func (k *pattern) match(payload []byte) []byte {
	if len(k.payload) == 0 {
		return nil
	}
	before, after := k.payload[:k.text], k.payload[k.rest:]
	end := len(payload) - len(after)
	if end <= len(before) || !bytes.HasPrefix(payload, before) || !bytes.HasSuffix(payload, after) {
		return nil
	}
	for _, b := range payload[k.text:end] {
		if b < ' ' || b == '"' || b == '\\' {
			return nil
		}
	}
	return payload[k.text-1 : end+1]
}
