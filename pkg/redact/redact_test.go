package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/tier"
)

// samples are, for each rule, lines with the secret in them, and lines that look
// alike and hold none.
var samples = map[string]struct {
	secrets map[string]string
	plain   []string
}{
	"token": {
		map[string]string{
			"token hf_AbCdEfGhIjKlMnOp used": "hf_AbCdEfGhIjKlMnOp", "key nvapi-abc_DEF-123456 x": "nvapi-abc_DEF-123456", "ghp_0123456789abcdef": "ghp_0123456789abcdef", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH_2026-11-25_10-00-00": "abcdefghijklm",
			"github_pat_11ABCDEFG0abcdefgh": "11ABCDEFG0abcdefgh", "sk-proj-123456789012": "123456789012", "sk-ant-api03-abcdefgh_1": "abcdefgh_1", "glpat-abcdefgh1234": "abcdefgh1234", "xoxb-123456789-abc": "123456789-abc",
		},
		[]string{"--hf-overrides --hf-config-path", "task_skipped sk", "desk-lamp-is-long", "hf_home", "sk-1",
			"shf_AbCdEfGhIjKl",
			"/out/hf_2026-11-25_10-00-00/agg/0", "/out/sk_2026-11-25_10-00-00-2", "hf-big_2026-11-25_10-00-00", "hf_llama_70b_eval", "hf_benchmark", "hf_llama-3-8b_2026-11-25_10-00-00"},
	},
	"aws-key-id": {map[string]string{"id AKIAIOSFODNN7EXAMPLE.": "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE": "ASIAIOSFODNN7EXAMPLE"}, []string{"AKIAX", "MAKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLES"}},
	"google-key": {map[string]string{"key=AIzaSyA1234567890abcdefghijklmnopqrstuv": "AIzaSyA1234567890abcdefghijklmnopqrstuv"}, []string{"AIzaShort", "MAIza"}},
	"jwt":        {map[string]string{"got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "eyJzdWIiOiIxMjM0In0"}, []string{"eyJhbGciOiJIUzI1NiJ9 alone", "eye.eye.eye"}},
	"header":     {map[string]string{"Authorization: Bearer abcdef.ghij-klm": "abcdef.ghij-klm", "authorization: basic dXNlcjpwYXNz": "dXNlcjpwYXNz", `"Authorization": "Basic dXNlcjpwYXNz"`: "dXNlcjpwYXNz"}, []string{"bearer of news", "basic authentication"}},
	"named": {map[string]string{"OPENAI_API_KEY=hunter2hunter": "hunter2hunter", `{"api_key": "hunter2 hunter3"}`: "hunter3", "password: correcthorse": "correcthorse", "HF_TOKEN='secret secret'": "secret secret", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG": "wJalrXUtnFEMI", "'passwd': 'a b c d'": "a b c d", "auth-token = abcd1234": "abcd1234",
		"'api_key': ['abc'], 'port': 8000": "abc", `"api_key": ["first", "canary"]`: "canary", "Namespace(api_key=['abc', \"d'canary]\"], port=8000)": "canary", "hf_tokens: (\n'abc',)": "abc", "api_key = [canary]": "canary",
		`{"msg": "{\"api_key\": \"canary 2\", \"port\": 8000}"}`: "canary",
		`\\\"token\\\": \\\"a \\\\\\\"canary\\\"`:                "canary", `"api_key": "a\"canary"`: "canary",
		`"api_key": "a\\", "port": 8`: `a\\`, `\"api_keys\": [\"x\", \"canary\"]`: "canary",
		"'auth': {'user': 'canary', 'deep': {'x': 1}, 'y': 'canary'}": "canary", `os.environ["WANDB_KEY_API_KEY"] = "x y canary"`: "canary", "router_token=abcdefgh": "abcdefgh", "DB_PASS='canary": "canary", "X-Api-Key: canary": "canary", "api_key_2=canary": "canary",
		"Cookie: session-canary-1": "canary", "password = 123456": "123456", "NGC_CLI_CREDENTIALS=canary": "canary",
	}, []string{
		"'api_key': [], 'port': 8000", "'api_key': None, 'port': 8000", "'api_keys': [None]", "token = { env = \"HF_TOKEN\" }", `\"max_tokens\": \"2048\"`, "auth: failed", "authentication: Unauthorized", "bypass=enabled", "forward-compass: north1", "KeyError: 'model'", "token: 17",
		"the program asked \"password: \" and waited", "max_tokens=256", "eos_token: <|endoftext|>", "num_token=2048", "the secret of success", "TokenizerError: bad token", "InvalidAuthToken: Authentication token is missing", "password:", "api_key=x"}},
	"option":      {map[string]string{"vllm serve m --api-key hunter2hunter": "hunter2hunter", "--password=correcthorse": "correcthorse", "--token 'abcd1234'": "abcd1234", "--hf-token abcd1234": "abcd1234", "--router-token abcd": "abcd", "--api-key-2 abcd": "abcd"}, []string{"--tokenizer org/model", "--token --next", "--max-tokens 2048", "--api-key-file /path/to"}},
	"url":         {map[string]string{"git clone https://me:hunter2@host/x.git": "hunter2", "http://:pass1@proxy:3128": "pass1", "https://0123456789abcdef0123@host/x.git": "0123456789abcdef0123"}, []string{"http://10.0.0.1:8000/v1@x", "https://me@host/x.git", "https://a-long-name-of-department@host/x.git", "http://[::1]:80/a"}},
	"private-key": {map[string]string{"-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----": "MIIEabc", "x -----BEGIN PRIVATE KEY-----MIIEabc": "MIIEabc"}, []string{"-----BEGIN CERTIFICATE-----MIIEabc", "a private key"}},
}

// Each rule finds what it is for, by itself, and nothing else does.
//
// covers: PL-D11
func TestRules(t *testing.T) {
	require.Len(t, samples, len(rules))
	for _, r := range rules {
		sample, ok := samples[r.name]
		require.True(t, ok, r.name)
		require.NotEmpty(t, sample.secrets, r.name)
		require.NotEmpty(t, sample.plain, r.name)
		for line, secret := range sample.secrets {
			got := r.replace(line)
			require.NotContains(t, got, secret, "%s: %s", r.name, line)
			require.Contains(t, got, Mark, "%s: %s", r.name, line)
			require.NotContains(t, Line(line), secret, "%s: the hints of the rule, %s", r.name, line)
			require.Equal(t, got, r.replace(got), "%s: a second time, %s", r.name, line)
		}
		for _, line := range sample.plain {
			require.Equal(t, line, Line(line), r.name)
		}
	}
}

// What is no secret stays, so that a line can still be understood.
func TestLineKeepsTheRest(t *testing.T) {
	for line, want := range map[string]string{
		"HF_TOKEN=hf_AbCdEfGhIjKlMnOp at 3":             "HF_TOKEN=[redacted] at 3",
		"clone https://me:pw@host/a https://x:y@host/b": "clone https://me:[redacted]@host/a https://x:[redacted]@host/b",
		"Authorization: Bearer abcdef.ghij-klm, 401":    "Authorization: Bearer [redacted], 401",
		"Namespace(api_key=['abc', 'd'], port=8000)":    "Namespace(api_key=[redacted], port=8000)",
		`{"a": "{\"api_key\": \"x\", \"port\": 1}"}`:    `{"a": "{\"api_key\": \"[redacted]\", \"port\": 1}"}`,
		"https://0123456789abcdef@host/x.git":           "https://[redacted]@host/x.git",
	} {
		require.Equal(t, want, Line(line))
	}
	require.Equal(t, []string{"vllm", "serve", "--api-key", Mark, "--port", "80", "--token", Mark},
		Words([]string{"vllm", "serve", "--api-key", "abc", "--port", "80", "--token", "x"}))
	require.Equal(t, []string{"--tokenizer", "m", "A=" + Mark},
		Words([]string{"--tokenizer", "m", "A=hf_AbCdEfGhIjKlMnOp"}))
	require.True(t, Shaped("hf_AbCdEfGhIjKlMnOp"))
	require.False(t, Shaped("hf_home"))
}

// hard is a value with everything that a printer escapes.
const hard = "canary 1'a\"b$(touch x)`c`\\d/é?&=+\nsecond line, canary 2\r\n\tthird\tcanary 3 <&>"

// Known values are found however programs print them.
//
// covers: PL-D10
func TestKnownValuesAreFound(t *testing.T) {
	v := Known(hard)
	quoted, err := json.Marshal(map[string]string{"K": hard})
	require.NoError(t, err)
	texts := map[string]string{"plain": "K=" + hard + "\n", "json": string(quoted),
		"lines": strings.ReplaceAll(hard, "\n", "\nINFO ")}
	stored, err := os.ReadFile("testdata/python.txt")
	require.NoError(t, err)
	texts["python"] = string(stored)
	for name, argv := range map[string][]string{
		"env": {"env"}, "export -p": {"bash", "-c", "export -p"}, "set": {"bash", "-c", "set"}, "set of sh": {"bash", "--posix", "-c", "set"},
		"quoted for bash": {"bash", "-c", `echo "${K@Q}"; printf %q "$K"`},
	} {
		texts[name] = printed(t, argv...)
	}
	for name, text := range texts {
		requireNoCanary(t, v, name, text)
	}
	t.Run("python3 of this machine", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("python3 is not installed: only the stored output of one was looked at")
		}
		requireNoCanary(t, v, "python3", printed(t, "python3", "testdata/python.py"))
	})
}

// printed is what a program says that has the value in its environment.
func printed(t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + t.TempDir(), "K=" + hard}
	out, err := cmd.Output()
	require.NoError(t, err, "%v (it is part of every build machine)", argv)
	require.NotEmpty(t, out)
	return string(out)
}

// requireNoCanary looks for what is left of the value, in a text and in a file.
func requireNoCanary(t *testing.T, v Values, name, text string) {
	t.Helper()
	require.NotContains(t, v.Text(text), "canary", name)
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	hits, err := v.Mask(file)
	require.NoError(t, err)
	require.NotEmpty(t, hits, name)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, data, len(text), name)
	require.NotContains(t, string(data), "canary", name)
}

func TestShortValuesAreLeftAlone(t *testing.T) {
	v := Known("short", "", "   \n        \n", "a\nb\nc")
	require.True(t, v.Empty())
	require.Equal(t, "short a b c", v.Text("short a b c"))
	v = Known("longer-than-that\nab\n")
	require.Equal(t, "ab "+Mark, v.Text("ab longer-than-that"))
}

// A file is read in blocks; a value over their border is found once, with its line.
func TestMaskOverBlocks(t *testing.T) {
	secret := "canary-of-a-secret"
	for _, before := range []int{0, 1, block - len(secret), block - len(secret) + 1, block - 5, block - 1, block,
		block + 1, 2*block - 3} {
		filler := bytes.Repeat([]byte("123456789\n"), before/10+1)[:before]
		text := slices.Concat(filler, []byte(secret), []byte("\n"), bytes.Repeat([]byte("z"), 100), []byte("\n"),
			[]byte(secret))
		file := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(file, text, 0o644))
		v := Known(secret, "another and longer secret, which makes the window wide")
		hits, err := v.Mask(file)
		require.NoError(t, err)
		line := bytes.Count(filler, []byte("\n")) + 1
		require.Equal(t, []Hit{{line, int64(before), len(secret)},
			{line + 2, int64(before + len(secret) + 102), len(secret)}}, hits, before)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(string(text), secret, strings.Repeat("x", len(secret))), string(data))
		again, err := v.Mask(file)
		require.NoError(t, err)
		require.Empty(t, again)
	}
}

// A file that is larger than what others read of one keeps no secret: the end of a log of
// gigabytes is read by people as well. Its middle is a hole, which takes no room.
func TestMaskLargeFiles(t *testing.T) {
	secret := "canary-of-a-secret"
	file := filepath.Join(t.TempDir(), "log")
	begin := bytes.Repeat([]byte("\n"), block) // one block, whose end is kept for the next
	copy(begin, secret)
	copy(begin[block-len(secret)-2:], secret)
	require.NoError(t, os.WriteFile(file, begin, 0o644))
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	const end = regular.Most + 1
	_, err = f.WriteAt([]byte(secret), end)
	require.NoError(t, err)
	hits, err := Known(secret).Mask(file)
	require.NoError(t, err)
	require.Equal(t, []Hit{{1, 0, len(secret)},
		{block - 2*len(secret) - 1, int64(block - len(secret) - 2), len(secret)}, {block - 2*len(secret) + 1, end, len(secret)}}, hits)
	for _, h := range hits {
		text := make([]byte, h.Len)
		_, err := f.ReadAt(text, h.At)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x", h.Len), string(text))
	}
}

func TestMaskLeavesOthersAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte("nothing here\n"), 0o444))
	before, err := os.Stat(file)
	require.NoError(t, err)
	hits, err := Known("canary-of-a-secret").Mask(file)
	require.NoError(t, err)
	require.Empty(t, hits)
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	_, err = Known("canary-of-a-secret").Mask(filepath.Join(t.TempDir(), "no"))
	require.ErrorIs(t, err, os.ErrNotExist)
	hits, err = Values{}.Mask("/does/not/matter")
	require.NoError(t, err)
	require.Empty(t, hits)
}

// A key of many lines costs no more than a token.
func BenchmarkMask(b *testing.B) {
	text := []byte(strings.Repeat("(EngineCore pid=90211) INFO 11-21 10:14:09 [core.py:1584] Avg prompt throughput: 1234.5 tokens/s, running: 8 reqs\n", 100000))
	file := filepath.Join(b.TempDir(), "log")
	require.NoError(b, os.WriteFile(file, text, 0o644))
	var key strings.Builder
	for i := range 50 {
		fmt.Fprintf(&key, "%064x\n", sha256.Sum256([]byte{byte(i)}))
	}
	for name, v := range map[string]Values{"token": Known("hf_AbCdEfGhIjKlMnOp"), "key": Known(key.String())} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if hits, err := v.Mask(file); err != nil || len(hits) > 0 {
					b.Fatal(hits, err)
				}
			}
		})
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range samples {
		for line := range s.secrets {
			f.Add(line, "canary-of-a-secret")
		}
		for _, line := range s.plain {
			f.Add(line, hard)
		}
	}
	f.Fuzz(func(t *testing.T, line, secret string) {
		Line(line)
		v := Known(secret)
		if got := v.Text(line + secret + line); len(secret) >= Least && strings.TrimSpace(secret) != "" &&
			len(strings.TrimSpace(secret)) >= Least {
			for _, rest := range strings.Split(got, Mark) {
				require.NotContains(t, rest, secret)
			}
		}
	})
}

// A value may begin with the backslash that ends what was taken out before it.
func TestValueBehindABackslash(t *testing.T) {
	require.Equal(t, `a_token=[redacted]"[redacted]\"`, Line(`a_token=b_token=\"secret1234\"`))
	require.Equal(t, `auth: [redacted]`, Line("auth: "+strings.Repeat("abcdefgh", 200)+"1234"))
}

// A line is read in a time that grows with its length, whatever it repeats:
// where it grew with the square, one of these took minutes.
func TestLongLines(t *testing.T) {
	tier.Alone(t)
	for _, part := range []string{`token:[`, `token:{"`, `token:{env:`, `token=`, `auth:`, `\`, `token:' token:" `} {
		line := "token:[ " + strings.Repeat(part, 1<<17/len(part))
		require.Equal(t, "token:"+Mark, Line(line))
		line = strings.TrimPrefix(line, "token:[ ")
		require.LessOrEqual(t, len(Line(line)), 4*len(line))
	}
}
