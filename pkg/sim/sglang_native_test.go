package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

// native asks /generate and returns the status and each answer of the stream, or the only one.
func native(t testing.TB, url, body string) (int, []map[string]any) {
	t.Helper()
	res, err := http.Post(url+"/generate", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	var list []map[string]any
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		var one map[string]any
		require.NoError(t, json.Unmarshal(text, &one), "%s", text)
		return res.StatusCode, append(list, one)
	}
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		text, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok || text == "[DONE]" {
			continue
		}
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &one), text)
		list = append(list, one)
	}
	return res.StatusCode, list
}

func meta(answer map[string]any) map[string]any { return answer["meta_info"].(map[string]any) }

// SGLang's client takes the text so far and the counts from each answer.
func TestSGLangNative(t *testing.T) {
	_, url := launch(t, nil)
	code, list := native(t, url, `{"text":"a b c","sampling_params":{"max_new_tokens":3},"stream":true}`)
	require.Equal(t, http.StatusOK, code)
	require.Len(t, list, 3)
	for i, one := range list {
		require.EqualValues(t, i+1, meta(one)["completion_tokens"])
		require.EqualValues(t, 5, meta(one)["prompt_tokens"])
		require.Len(t, one["output_ids"], i+1)
		require.True(t, i == 0 || strings.HasPrefix(one["text"].(string), list[i-1]["text"].(string)),
			"the text from its beginning")
	}
	require.Nil(t, meta(list[1])["finish_reason"])
	require.Equal(t, map[string]any{"type": "length", "length": 3.0}, meta(list[2])["finish_reason"])
	_, whole := native(t, url, `{"input_ids":[5,6],"lora_path":null,"return_logprob":false,"logprob_start_len":-1,"sampling_params":{"max_new_tokens":3}}`)
	require.EqualValues(t, 2, meta(whole[0])["prompt_tokens"])
	require.Positive(t, meta(whole[0])["e2e_latency"])
	_, long := native(t, url, `{"text":"a","sampling_params":{"ignore_eos":true}}`)
	require.EqualValues(t, 128, meta(long[0])["completion_tokens"], "SGLang's default")
	for _, body := range []string{`{}`, `{"text":""}`, `{"text":["a","b"]}`, `{"text":"a","sampling_params":{"max_new_tokens":0}}`} {
		code, _ := native(t, url, body)
		require.Equal(t, http.StatusBadRequest, code, body)
	}
}

// The router sends a request to prefill and to decode at once. Decode answers when prefill has
// computed the prompt, whichever request comes first.
func TestSGLangRooms(t *testing.T) {
	side := freeAddress(t)
	port := side[strings.LastIndexByte(side, ':')+1:]
	host := map[string]string{"SGLANG_HOST_IP": "127.0.0.1"}
	_, prefill := launch(t, host, "--disaggregation-mode", "prefill", "--disaggregation-transfer-backend", "nixl",
		"--disaggregation-bootstrap-port", port)
	_, decode := launch(t, host, "--disaggregation-mode", "decode", "--disaggregation-transfer-backend", "nixl")
	body := func(room uint64) string {
		return fmt.Sprintf(`{"text":"a b c","sampling_params":{"max_new_tokens":4},"stream":true,"bootstrap_host":"127.0.0.1","bootstrap_port":%s,"bootstrap_room":%d}`,
			port, room)
	}
	for i, order := range [][]string{{prefill, decode}, {decode, prefill}} {
		got := map[string][]map[string]any{}
		answers := make(chan func())
		for _, url := range order {
			go func() {
				_, list := native(t, url, body(1<<62+uint64(i)))
				answers <- func() { got[url] = list }
			}()
		}
		for range order {
			(<-answers)()
		}
		require.Len(t, got[prefill], 1, "one token")
		require.Len(t, got[decode], 4)
		require.Equal(t, got[prefill][0]["text"], got[decode][0]["text"])
	}
	_, text := get(t, decode+"/server_info")
	require.Contains(t, text, `"disaggregation_mode":"decode"`)
	code, _ := native(t, decode, `{"text":"a","sampling_params":{"max_new_tokens":4},"bootstrap_host":"127.0.0.1","bootstrap_port":`+
		strconv.Itoa(1)+`,"bootstrap_room":7}`)
	require.Equal(t, http.StatusInternalServerError, code, "nobody answers for the KV cache")
}

// keysOf are the keys of the first JSON line of a file, in order.
func keysOf(t *testing.T, file string) (keys []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	line, _, _ := strings.Cut(strings.ReplaceAll(string(data), "Infinity", "0"), "\n")
	in := json.NewDecoder(strings.NewReader(line))
	_, err = in.Token()
	require.NoError(t, err)
	for in.More() {
		key, err := in.Token()
		require.NoError(t, err)
		keys = append(keys, key.(string))
		var value json.RawMessage
		require.NoError(t, in.Decode(&value))
	}
	return keys
}

// The simulated successor writes the keys of the real one, in its order, and says that it is simulated.
func TestSGLangClientKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.jsonl")
	var given []string
	var out, errs output
	code := Main(t.Context(), program.Process{
		Args: strings.Fields("python3 -m sglang.benchmark.serving --backend sglang --base-url http://h:1 --model m --dataset-name random-ids " +
			"--goodput ttft:500 e2el:115 --output-file " + file + " --output-details"),
		Env: env(nil), Stdout: &out, Stderr: &errs,
		Bench: func(_ context.Context, args []string, _ func() time.Time, _, _ io.Writer) int {
			given = args
			name := filepath.Join(after(args, "--result-dir"), after(args, "--result-filename"))
			require.NoError(t, os.WriteFile(name, []byte(`{"duration":2.0,"completed":1,"request_goodput":0.5}`), 0o644))
			return 0
		},
	})
	require.Equal(t, 0, code, errs.String())
	require.Contains(t, strings.Join(given, " "), " --goodput ttft:500 e2el:115")
	want := slices.DeleteFunc(keysOf(t, "../bench/sglang/testdata/0.5.23.jsonl"), func(key string) bool {
		// Of --goodput only the rate is simulated, --cache-report is not.
		return strings.HasPrefix(key, "slo_attainment") || key == "goodput_slos_ms" || strings.HasPrefix(key, "cache")
	})
	got := slices.DeleteFunc(keysOf(t, file), func(key string) bool { return key == "simulated" })
	require.Equal(t, want, got)
}
