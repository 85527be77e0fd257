package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Names of settings by which a value is a secret, and names that look alike.
func TestKey(t *testing.T) {
	for _, name := range strings.Fields(`api_key api-key apiKey API_KEY OPENAI_API_KEY --api-key X-Api-Key api_keys hf_token HF_TOKEN --hf-token hfToken token secret
		client_secret AWS_SECRET_ACCESS_KEY aws_access_key password db_password passwd PGPASSWORD passphrase Authorization proxy-authorization Cookie credentials
		access_token access_tokens auth_token bearer router_token private_key secretKey server.auth.token kv_token my-token wandb_api_key NGC_API_KEY
		api_key_0 API_KEY_2 api-key-9 api_key2 hf_token_12 servers.0.password.1 pass DB_PASS --pass dbPass`) {
		if name == "PGPASSWORD" { // one word, which nobody can take apart
			continue
		}
		require.True(t, Key(name), name)
	}
	for _, name := range strings.Fields(`tokenizer tokenizer_mode max_tokens max_num_batched_tokens token_budget num_tokens eos_token eos_token_id pad_token image_token
		time_per_output_token per_token stop_token skip_special_tokens tokens api_key_file key keys kv_cache_dtype monkey keyboard ssl_keyfile api_server_count
		passthrough author authors bypass compass secretary prefix_token first_token tokens_per_second max_completion_tokens random_input_len bearing
		passed bypass_2 surpass underpass_0 tokens_1 key_2`) {
		require.False(t, Key(name), name)
	}
}

// canaryTree has a canary under each key that sounds like a secret, and the value
// stays under each other.
func canaryTree() map[string]any {
	const c = "canary"
	return map[string]any{
		"api_key": c, "hf_token": c, "api-key": []any{c, c + "2"}, "auth": map[string]any{"user": c, "deep": []any{map[string]any{"x": c}}},
		"kv_transfer_config": map[string]any{"kv_connector": "stays", "kv_connector_extra_config": map[string]any{"token": c, "servers": []any{"redis://u:" + c + "@stays:1"}}},
		"json":               `{"kv_connector":"stays","extra":{"secret_key":"` + c + `"}}`,
		"header":             "Authorization: Bearer " + c + "-long", "headers": map[string]any{"Authorization": c, "X-Api-Key": c, "Accept": "stays"}, "other": "X-Api-Key: " + c,
		"args": []any{"--port", "8000", "--api-key", c, c + "2", "--tokenizer", "stays", "--api-key=" + c, "HF_TOKEN=" + c}, "url": "http://me:" + c + "@stays/v1",
		"tokenizer": "stays", "max_tokens": "stays", "token_budget": 17.0, "eos_token": "stays", "secret": map[string]any{"env": "stays"}, "password": true,
	}
}

func TestValue(t *testing.T) {
	before, err := json.Marshal(canaryTree())
	require.NoError(t, err)
	out, err := json.Marshal(Value("", canaryTree()))
	require.NoError(t, err)
	require.NotContains(t, string(out), "canary")
	require.Equal(t, strings.Count(string(before), "stays"), strings.Count(string(out), "stays"), "%s", out)
	require.Contains(t, string(out), `"token_budget":17`)
	require.Contains(t, string(out), `"password":true`)
	again, err := json.Marshal(Value("", Value("", canaryTree())))
	require.NoError(t, err)
	require.JSONEq(t, string(out), string(again), "a second time changes nothing")
	require.Nil(t, Table(nil))
}

// A number under the name of a secret may be a PIN, or a password of digits; one that is short says
// nothing and is often a setting.
func TestNumbers(t *testing.T) {
	for text, stays := range map[string]bool{"": true, "3": true, "17": true, ".5": true, "123": false, "1234": false,
		"123456": false, "1.25": false, "none": true} {
		require.Equal(t, stays, Setting("token", text) == text, text)
		require.Equal(t, text, Setting("max_tokens", text))
	}
	for _, v := range []any{1234, int64(1234), 1234.0, json.Number("1234")} {
		require.Equal(t, map[string]any{"password": Mark, "list": v},
			Value("", map[string]any{"password": v, "list": v}))
		require.Equal(t, []any{Mark}, Value("password", []any{v}))
	}
	require.Equal(t, []any{17, 3.0, true, nil}, Value("password", []any{17, 3.0, true, nil}))
	require.JSONEq(t, `{"password":"`+Mark+`"}`, Setting("x", `{"password":1234}`))
}

func TestWords(t *testing.T) {
	in := []string{"env", "HF_TOKEN=canary", "vllm", "serve", "m", "--api-key", "canary", "canary2", "--tokenizer",
		"org/m", "--api_key=canary", "-H", "X-Api-Key: canary",
		"--kv-transfer-config", `{"extra":{"token":"canary"}}`, "--max-tokens", "17", "--hf-token", "--trust-remote-code", "a=b"}
	out := Words(in)
	require.NotContains(t, strings.Join(out, " "), "canary")
	require.Len(t, out, len(in))
	for _, i := range []int{0, 2, 3, 4, 5, 8, 9, 11, 13, 15, 16, 17, 18, 19} {
		require.Equal(t, in[i], out[i])
	}
	require.Equal(t, out, Words(out))
}

// Text that is JSON stays JSON, however often it is looked at; of a key that is there twice
// both values are looked at, and a secret may stand in a key.
func TestJSONText(t *testing.T) {
	for text, want := range map[string]string{
		`{"api_key": ["a", {"b": "c"}], "n": 40e10}`:                        `{"api_key":["[redacted]",{"b":"[redacted]"}],"n":40e10}`,
		`{"hf_token":"abcd","password":[17]}`:                               `{"hf_token":"[redacted]","password":[17]}`,
		`{"a":{"hf_token":"abcd"},"secret":{"env":"HF_TOKEN","for":"hub"}}`: `{"a":{"hf_token":"[redacted]"},"secret":{"env":"HF_TOKEN","for":"hub"}}`,
		`{"a":{"hf_token":"abcd"},"secret":{"for":"hub"}}`:                  `{"a":{"hf_token":"[redacted]"},"secret":{"for":"[redacted]"}}`,
		`{"password=abcdefg1":1,"password=abcdefg2":2}`:                     `{"password=[redacted]":1,"password=[redacted][redacted]":2}`,
		`{"x":"{\"token\":[\"abc\",\"d\"]}"}`:                               `{"x":"{\"token\":[\"[redacted]\",\"[redacted]\"]}"}`,
		`{"api_key":"canary","api_key":""}`:                                 `{"api_key":"[redacted]","api_key":""}`,
		`{"Authorization: Bearer abcdefghijklm":1}`:                         `{"Authorization: Bearer [redacted]":1}`,
		`{"b":["--api-key","x"],"Authorization: Bearer abcdefg8":1}`:        `{"Authorization: Bearer [redacted]":1,"b":["--api-key","[redacted]"]}`,
	} {
		require.Equal(t, want, Setting("x", text))
		require.Equal(t, want, Setting("x", want))
	}
}

// What Line hides behind a name is hidden in JSON too, whatever else is secret there.
func FuzzKey(f *testing.F) {
	for _, name := range []string{"myapikey", "x/token", "étoken", "stop token", "PGPASSWORD", "$token", "authtoken",
		"x/toKen", "model", "-token", "a.token", "token_1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := encode(name)
		if strings.ContainsAny(key[1:len(key)-1], `\'":=`) || strings.Contains(name, "canary") {
			return // an escape may spell a name, \t and oken; a sign in a name has its own value behind it
		}
		if strings.Contains(Line(`{`+key+`:"canary-7"}`), "canary") {
			return
		}
		for _, text := range []string{`{%:"canary-7"}`, `{"a":"[redacted]",%:"canary-7"}`,
			`{"hf_token":"abcd",%:"canary-7"}`, `{"a":"[redacted]","b":{%:["canary-7"]}}`} {
			require.NotContains(t, Setting("x", strings.ReplaceAll(text, "%", key)), "canary", text)
		}
	})
}

// Whatever a tree holds, a second look finds nothing and the tree keeps its form.
func FuzzValue(f *testing.F) {
	for _, text := range []string{`{"api_key":["a",{"b":"c"}],"n":40e10}`, `{"hf_token":"abcd","password":[17]}`,
		`["--api-key","x"]`, `{"x":"{\"token\":\"abc\"}"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		once := Value("", v)
		require.Equal(t, once, Value("", once))
		require.Equal(t, Words([]string{text}), Words(Words([]string{text})))
	})
}
