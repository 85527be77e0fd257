package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const recorded = "testdata/vllm-0.32.0"

var recordFrom = flag.String("record", "", "comma list of role=URL of real servers; see testdata/record.sh")

// request is one line of testdata/requests.json.
type request struct {
	Name        string
	Server      string // serve, prefill or decode
	Method      string
	Path        string
	Body        map[string]any
	Raw         *string        // instead of Body
	ContentType string         `json:"content_type"`
	RequestID   string         `json:"request_id"`
	KV          map[string]any // replaces values of the kv_transfer_params taken over from another answer
	Settle      bool           // a real engine needs a moment until /metrics shows what it did
}

func readRequests(t testing.TB) []request {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.json")
	require.NoError(t, err)
	var all []request
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// An exchange asks servers, remembering their answers: a status line with the content type, an
// empty line, the body.
type exchanged struct {
	base    map[string]string // role to URL
	answers map[string]string
}

func (e *exchanged) ask(t testing.TB, r request) string {
	t.Helper()
	var body []byte
	switch {
	case r.Raw != nil:
		body = []byte(*r.Raw)
	case r.Body != nil:
		var err error
		body, err = json.Marshal(e.withKV(t, r))
		require.NoError(t, err)
	}
	q, err := http.NewRequestWithContext(t.Context(), r.Method, e.base[r.Server]+r.Path, bytes.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	if r.ContentType != "" {
		q.Header.Set("Content-Type", r.ContentType)
	}
	if r.RequestID != "" {
		q.Header.Set("X-Request-Id", r.RequestID)
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err, r.Name)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err, r.Name)
	e.answers[r.Name] = fmt.Sprintf("%d %s\n\n%s", a.StatusCode, a.Header.Get("Content-Type"), text)
	return e.answers[r.Name]
}

// withKV puts the kv_transfer_params of an earlier answer where the body names it.
func (e *exchanged) withKV(t testing.TB, r request) map[string]any {
	t.Helper()
	body := maps.Clone(r.Body)
	from, ok := body["kv_transfer_params"].(string)
	if !ok {
		return body
	}
	_, text, _ := strings.Cut(e.answers[strings.TrimPrefix(from, "$")], "\n\n")
	var answer struct {
		KV map[string]any `json:"kv_transfer_params"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer), from)
	require.NotEmpty(t, answer.KV, from)
	maps.Copy(answer.KV, r.KV)
	body["kv_transfer_params"] = answer.KV
	return body
}

// TestRecord writes the answers of real servers; it does nothing without -record.
func TestRecord(t *testing.T) {
	if *recordFrom == "" {
		t.Skip("no -record: testdata/record.sh runs this against a real vLLM")
	}
	e := &exchanged{base: map[string]string{}, answers: map[string]string{}}
	for s := range strings.SplitSeq(*recordFrom, ",") {
		role, url, _ := strings.Cut(s, "=")
		e.base[role] = url
	}
	for _, r := range readRequests(t) {
		if e.base[r.Server] == "" {
			continue
		}
		if r.Settle {
			time.Sleep(2 * time.Second)
		}
		require.NoError(t, os.WriteFile(filepath.Join(recorded, r.Name+".http"), []byte(e.ask(t, r)), 0o644))
	}
}

// The values of these fields are not imitated, only their presence and type: identities, times,
// and what only a model can say. Everything else must have the recorded value.
var free = []string{
	"id", "created", "root", "owned_by", "version", "system_fingerprint",
	"text", "content", "token_ids", "token", "tokens", "logprob", "token_logprobs", "text_offset",
	"remote_engine_id", "remote_request_id", "remote_block_ids", "remote_port",
}

// These are not even compared in length: bytes of a token's text, alternatives of a token.
var freeLength = []string{"bytes"}

// flatten lists a JSON value's fields in order, one "path type value" each.
func flatten(t testing.TB, text string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var lines []string
	flattenValue(t, d, "", "", &lines)
	return lines
}

func flattenValue(t testing.TB, d *json.Decoder, path, key string, lines *[]string) {
	tok, err := d.Token()
	require.NoError(t, err, path)
	add := func(kind string, v any) {
		if slices.Contains(free, key) {
			v = "..."
		}
		*lines = append(*lines, fmt.Sprintf("%s %s %v", path, kind, v))
	}
	switch v := tok.(type) {
	case json.Delim:
		start := len(*lines)
		for i := 0; d.More(); i++ {
			if v == '[' {
				flattenValue(t, d, fmt.Sprintf("%s[%d]", path, i), key, lines)
				continue
			}
			name, err := d.Token()
			require.NoError(t, err)
			field := name.(string)
			if strings.Contains(path, "top_logprobs") && key == "top_logprobs" &&
				!slices.Contains([]string{"token", "logprob", "bytes"}, field) {
				field = "logprob" // keys are texts of tokens
			}
			flattenValue(t, d, path+"."+field, field, lines)
		}
		_, err := d.Token()
		require.NoError(t, err)
		if slices.Contains(freeLength, key) && len(*lines) > start {
			*lines = append((*lines)[:start], path+"[] numbers")
		}
		if len(*lines) == start {
			*lines = append(*lines, fmt.Sprintf("%s empty %v", path, v))
		}
	case nil:
		*lines = append(*lines, path+" null")
	case string:
		add("string", v)
	case json.Number:
		add("number", v)
	case bool:
		add("bool", v)
	}
}

// events splits a stream into its data; chunks of several choices may come in any order, so
// they are put in order.
func eventsOf(t testing.TB, body string) [][]string {
	t.Helper()
	require.True(t, strings.HasSuffix(body, "\n\n"), "stream ends with an empty line")
	var all [][]string
	for part := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(part, "data: ")
		require.True(t, ok, "event %q", part)
		require.NotContains(t, data, "\n")
		if data == "[DONE]" {
			all = append(all, []string{data})
			continue
		}
		all = append(all, flatten(t, data))
	}
	slices.SortStableFunc(all, func(a, b []string) int { return choiceOf(a) - choiceOf(b) })
	return all
}

func choiceOf(lines []string) int {
	for _, l := range lines {
		if v, ok := strings.CutPrefix(l, ".choices[0].index number "); ok {
			n, _ := strconv.Atoi(v)
			return n
		}
	}
	return 1 << 20 // usage and [DONE]
}

// jsonError is where the two JSON parsers differ: in wording and by a character in position.
var jsonError = regexp.MustCompile(`body\.\d+|'error': '[^']*'`)

// requireSameLines compares long lists; testify would print them whole.
func requireSameLines(t testing.TB, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			require.Fail(t, "not in the recorded answer", got[i])
		case i >= len(got):
			require.Fail(t, "missing", want[i])
		case want[i] != got[i]:
			assertDifferent(t, want[i:], got[i:])
		}
	}
}

func assertDifferent(t testing.TB, want, got []string) {
	t.Helper()
	const shown = 3
	require.Fail(t, "different", "recorded:\n\t%s\nsimulated:\n\t%s",
		strings.Join(want[:min(shown, len(want))], "\n\t"), strings.Join(got[:min(shown, len(got))], "\n\t"))
}

func body(answer string) string {
	_, b, _ := strings.Cut(answer, "\n\n")
	return b
}

// What the simulator claims to imitate is checked against a real engine.
func TestImitatesRecordedVLLM(t *testing.T) {
	e := &exchanged{answers: map[string]string{}, base: map[string]string{
		"serve":   startServe(t, nil),
		"prefill": startServe(t, nil, "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_producer"}`),
		"decode":  startServe(t, nil, "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}`),
	}}
	requests := readRequests(t)
	require.Greater(t, len(requests), 80)
	for _, r := range requests {
		got := e.ask(t, r)
		t.Run(r.Name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(recorded, r.Name+".http"))
			require.NoError(t, err)
			want := string(text)
			head, _, _ := strings.Cut(want, "\n")
			gotHead, _, _ := strings.Cut(got, "\n")
			require.Equal(t, head, gotHead)
			switch {
			case r.Path == "/metrics":
				requireSameMetrics(t, body(want), body(got))
			case strings.Contains(head, "event-stream"):
				require.Equal(t, eventsOf(t, body(want)), eventsOf(t, body(got)))
			case body(want) == "":
				require.Empty(t, body(got))
			default:
				require.Equal(t,
					jsonError.ReplaceAllString(strings.Join(flatten(t, body(want)), "\n"), "..."),
					jsonError.ReplaceAllString(strings.Join(flatten(t, body(got)), "\n"), "..."))
			}
		})
	}
}

// Metrics that are not imitated, whole or in their values: the Python runtime, process memory,
// all that is measured in seconds or starts with a clock, how iterations are batched, sizes of
// HTTP bodies, and of the cache's description most labels.
var (
	absentMetric = regexp.MustCompile(`^python_`)
	freeMetric   = regexp.MustCompile(`^process_|_created$|_seconds(_sum|_bucket)$|^vllm:iteration_tokens_total_(count|bucket)|` +
		`^http_request_size|^http_response_size|^http_request_duration|^vllm:inter_token_latency_seconds|` +
		`^vllm:nixl_(xfer|post)_time_seconds_bucket`)
)

func requireSameMetrics(t testing.TB, want, got string) {
	t.Helper()
	requireSameLines(t, metricLines(t, want), metricLines(t, got))
}

// metricLines lists types and samples in order, without help texts; a value that is not
// imitated becomes "...".
func metricLines(t testing.TB, text string) []string {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if typed, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if !absentMetric.MatchString(typed) {
				lines = append(lines, typed)
			}
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := cutLast(line, " ")
		require.True(t, ok, line)
		bare, _, _ := strings.Cut(name, "{")
		switch {
		case absentMetric.MatchString(bare):
			continue
		case bare == "vllm:cache_config_info":
			name = bare
		case freeMetric.MatchString(bare):
			value = "..."
		}
		x, err := strconv.ParseFloat(value, 64)
		if err == nil {
			value = strconv.FormatFloat(x, 'g', -1, 64)
		}
		lines = append(lines, name+" "+value)
	}
	return lines
}

func cutLast(s, sep string) (string, string, bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
