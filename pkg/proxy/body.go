package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A field is a set of top-level members of a request or answer that the proxy
// reads or replaces. Every other member is zero and passes untouched.
type field uint8

const (
	maxTokens field = 1 << iota
	maxCompletionTokens
	minTokens
	stream
	streamOptions
	kvTransferParams
	errorMember  // of an answer
	objectMember // likewise
)

// fieldOf names the field of an unescaped member name.
func fieldOf(name []byte) field {
	switch string(name) {
	case "max_tokens":
		return maxTokens
	case "max_completion_tokens":
		return maxCompletionTokens
	case "min_tokens":
		return minTokens
	case "stream":
		return stream
	case "stream_options":
		return streamOptions
	case "kv_transfer_params":
		return kvTransferParams
	case "error":
		return errorMember
	case "object":
		return objectMember
	}
	return 0
}

// A member is one top-level member of a JSON object, as offsets into its text.
type member struct {
	field field
	start int // of the name's opening quote
	value int // of the value's first byte
	end   int // behind the value's last byte
}

// An object is the text of a JSON object and where its top-level members lie.
type object struct {
	text    []byte
	members []member
}

// maxMembers bounds the top-level members of an object. OpenAI's requests have some forty; of a
// short member, its place takes six times the memory of its text, which no other limit counts.
const maxMembers = 4096

var errMembers = fmt.Errorf("JSON object has more than %d members", maxMembers)

// scan finds the top-level members of text, in order, duplicates included.
// It looks only at what it needs: the object's own punctuation, the names, and
// the values of known fields are checked, while other values are skipped by
// their brackets and quotes, so that a long prompt costs little more than a
// memory scan. A broken value that was skipped stays broken in every edit: the
// engine refuses it, as it would without a proxy. members is reused.
func scan(text []byte, members []member) (object, error) {
	o := object{text: text, members: members[:0]}
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return o, errors.New("body is not a JSON object")
	}
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == '}' {
		return o, o.ended(i + 1)
	}
	for {
		if len(o.members) == maxMembers {
			return o, errMembers
		}
		m, err := scanMember(text, i)
		if err != nil {
			return o, err
		}
		o.members = append(o.members, m)
		i = skipSpace(text, m.end)
		switch {
		case i == len(text):
			return o, errors.New("JSON object is cut off")
		case text[i] == '}':
			return o, o.ended(i + 1)
		case text[i] != ',':
			return o, fmt.Errorf("invalid JSON at byte %d: want a comma or the object's end", i)
		}
		i = skipSpace(text, i+1)
	}
}

// ended complains about anything but white space from byte i on.
func (o object) ended(i int) error {
	if i = skipSpace(o.text, i); i < len(o.text) {
		return fmt.Errorf("invalid JSON at byte %d: text after the object", i)
	}
	return nil
}

// scanMember reads `"name": value` at byte i.
func scanMember(text []byte, i int) (member, error) {
	if i == len(text) || text[i] != '"' {
		return member{}, fmt.Errorf("invalid JSON at byte %d: want a member name", i)
	}
	end, err := skipString(text, i)
	if err != nil {
		return member{}, err
	}
	m := member{start: i, field: fieldOf(text[i+1 : end-1])}
	if bytes.IndexByte(text[i:end], '\\') >= 0 {
		var name string
		if err := json.Unmarshal(text[i:end], &name); err != nil {
			return member{}, fmt.Errorf("invalid JSON at byte %d: %w", i, err)
		}
		m.field = fieldOf([]byte(name))
	}
	i = skipSpace(text, end)
	if i == len(text) || text[i] != ':' {
		return member{}, fmt.Errorf("invalid JSON at byte %d: want a colon", i)
	}
	m.value = skipSpace(text, i+1)
	m.end, err = skipValue(text, m.value)
	if err == nil && m.field != 0 && !json.Valid(text[m.value:m.end]) {
		err = fmt.Errorf("invalid JSON at byte %d: bad value", m.value)
	}
	return m, err
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index behind the string that opens at byte i.
func skipString(text []byte, i int) (int, error) {
	for from := i + 1; ; {
		quote := bytes.IndexByte(text[from:], '"')
		if quote < 0 {
			return 0, fmt.Errorf("invalid JSON at byte %d: string is cut off", i)
		}
		quote += from
		slashes := 0
		for text[quote-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1, nil
		}
		from = quote + 1
	}
}

// skipValue returns the index behind the value at byte i.
func skipValue(text []byte, i int) (int, error) {
	start, depth := i, 0
	for i < len(text) {
		switch text[i] {
		case '"':
			end, err := skipString(text, i)
			if err != nil || depth == 0 && i == start {
				return end, err
			}
			if depth == 0 {
				return 0, fmt.Errorf("invalid JSON at byte %d: want a comma or the object's end", i)
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return scalarEnd(start, i)
			}
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return scalarEnd(start, i)
			}
		}
		i++
	}
	return 0, fmt.Errorf("invalid JSON at byte %d: value is cut off", start)
}

func scalarEnd(start, end int) (int, error) {
	if start == end {
		return 0, fmt.Errorf("invalid JSON at byte %d: want a value", start)
	}
	return end, nil
}

// value returns the raw value of the last member of field f, the one that
// JSON readers keep, or nil.
func (o object) value(f field) []byte {
	for i := len(o.members) - 1; i >= 0; i-- {
		if m := o.members[i]; m.field == f {
			return o.text[m.value:m.end]
		}
	}
	return nil
}

// appendEdited appends the object without the members in drop and with added
// in front: whole members, separated by commas, no comma at either end.
// Everything else keeps its bytes and its order.
func (o object) appendEdited(dst []byte, drop field, added ...[]byte) []byte {
	dst = append(dst, '{')
	empty := true
	put := func(piece []byte) {
		if !empty {
			dst = append(dst, ',')
		}
		dst, empty = append(dst, piece...), false
	}
	for _, a := range added {
		put(a)
	}
	for i := 0; i < len(o.members); i++ {
		if o.members[i].field&drop != 0 {
			continue
		}
		run := i // members run..i stay together, with the bytes between them
		for i+1 < len(o.members) && o.members[i+1].field&drop == 0 {
			i++
		}
		put(o.text[o.members[run].start:o.members[i].end])
	}
	return append(dst, '}')
}

var (
	oneToken     = []byte(`"max_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`)
	oneChatToken = []byte(`"max_completion_tokens":1`)
)

// appendPrefill appends the request for the prefill instance: one token, not
// streamed, its KV blocks kept for a remote decode. min_tokens goes, because it
// may exceed the one token. In chat max_completion_tokens outranks max_tokens,
// so it is set as well; elsewhere only where the client used it.
func (o object) appendPrefill(dst []byte, chat bool) []byte {
	const drop = maxTokens | maxCompletionTokens | minTokens | stream | streamOptions | kvTransferParams
	if chat || o.value(maxCompletionTokens) != nil {
		return o.appendEdited(dst, drop, oneToken, oneChatToken)
	}
	return o.appendEdited(dst, drop, oneToken)
}

// appendDecode appends the request for the decode instance: the client's own,
// with params, the raw value that prefill answered, as kv_transfer_params.
// What the client sent under that name is dropped: it would name blocks of an
// engine that the proxy did not choose. With nil params there is no such member.
func (o object) appendDecode(dst, params []byte) []byte {
	if params == nil {
		return o.appendEdited(dst, kvTransferParams)
	}
	added := make([]byte, 0, len(params)+24)
	added = append(added, `"kv_transfer_params":`...)
	return o.appendEdited(dst, kvTransferParams, append(added, params...))
}

// failed reports whether the object, an answer, says that it is an error: vLLM and SGLang have
// {"error": {...}}, older releases {"object": "error", ...}. The load client decides alike
// (load/answer/testdata/errors.txt).
func (o object) failed() bool {
	return slices.ContainsFunc(o.members, func(m member) bool {
		switch value := string(o.text[m.value:m.end]); m.field {
		case errorMember:
			return value != "null" && value != "false" && value != `""` && value != "{}"
		case objectMember:
			return value == `"error"`
		}
		return false
	})
}

// maxParams bounds kv_transfer_params: ids of all blocks of a prompt, some ten
// bytes each. A prompt of a million tokens has 62,500 blocks of 16.
const maxParams = 8 << 20

// transferParams copies the kv_transfer_params out of prefill's answer, raw;
// nil when they are absent, null or empty.
func transferParams(answer []byte) ([]byte, error) {
	members := memberPool.Get().(*[]member)
	defer memberPool.Put(members)
	o, err := scan(answer, *members)
	*members = o.members
	switch raw := o.value(kvTransferParams); {
	case err != nil:
		return nil, &fault{reason: badBody, err: err}
	case o.failed():
		return nil, faultf(badBody, "status 200 with an error in its body: %.200s", answer)
	case raw == nil || string(raw) == "null":
		return nil, nil
	case raw[0] != '{':
		return nil, faultf(badBody, "kv_transfer_params is not an object: %.40s", raw)
	case len(raw) > maxParams:
		return nil, faultf(tooLarge, "kv_transfer_params has %d bytes; the limit is %d", len(raw), maxParams)
	case skipSpace(raw, 1) == len(raw)-1: // {}
		return nil, nil
	default:
		return append([]byte(nil), raw...), nil
	}
}
