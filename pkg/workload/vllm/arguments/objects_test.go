package arguments

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Members that a release does not have, values of another kind and unknown choices are refused, with
// what to do instead. Releases that ignore such members are told as such.
//
// covers: CFG-1, CFG-2, CFG-3
func TestMembers(t *testing.T) {
	for _, c := range []struct{ version, option, value, says, hint string }{
		{"0.32.0", "--kv-transfer-config", `{"kv_connector": "x", "kv_role": "kv_both", "kv_port": 3, "enable_permute_local_kv": "yes"}`, "", ""},
		{"0.32.0", "--kv-transfer-config", `{"kv_conector": "x"}`, "kv_conector: Unexpected keyword argument", "did you mean kv_connector?"},
		{"0.14.0", "--kv-transfer-config", `{"kv_conector": "x"}`, "KVTransferConfig has no member kv_conector", "did you mean kv_connector?"},
		{"0.32.0", "--kv-transfer-config", `{"kv_buffer_size": 3}`, "kv_buffer_size: Unexpected keyword argument", "removed it"},
		{"0.18.0", "--kv-transfer-config", `{"kv_buffer_size": 3}`, "", ""},
		{"0.32.0", "--kv-transfer-config", `{"kv_role": "kv_bth"}`, "kv_role: Input should be 'kv_producer', 'kv_both' or 'kv_consumer'", ""},
		{"0.32.0", "--kv-transfer-config", `{"kv_port": "x"}`, "kv_port: Input should be a valid integer, unable to parse string as an integer", ""},
		{"0.32.0", "--kv-transfer-config", `{"kv_port": 2.5}`, "kv_port: Input should be a valid integer, got a number with a fractional part", ""},
		{"0.32.0", "--kv-transfer-config", `{"kv_port": "7", "kv_role": null}`, "", ""},
		{"0.32.0", "--kv-transfer-config", `{"enable_permute_local_kv": "maybe"}`, "unable to interpret input", ""},
		{"0.32.0", "--kv-transfer-config", `{"a": 1, "b": 2}`, "2 validation errors for KVTransferConfig: a: ", ""},
		{"0.32.0", "--kv-transfer-config", `[1]`, "", ""},
		{"0.32.0", "--compilation-config.mdoe", "3", "argument --compilation-config/-cc: 1 validation error for CompilationConfig: mdoe: ", "did you mean mode?"},
		{"0.32.0", "--compilation-config.dynamic_shapes_config.evaluate_guards", "7", "dynamic_shapes_config.evaluate_guards: Input should be a valid boolean", ""},
		{"0.32.0", "-cc.cudagraph_num_of_warmups", "3", "", ""},
		{"0.32.0", "--speculative-config", `{"method": "ngram", "num-speculative-tokens": 3}`, "", ""},
		{"0.32.0", "--speculative-config", `{"methd": "ngram"}`, "SpeculativeConfig: methd: Unexpected keyword argument", "did you mean method?"},
		{"0.32.0", "--speculative-config", `{"num_speculative_tokens": 0}`, "Input should be greater than 0", ""},
		{"", "--kv-transfer-config", `{"kv_buffer_size": 3}`, "", ""},
		{"", "--kv-transfer-config", `{"kv_buffer_siz": 3}`, "kv_buffer_siz: Unexpected keyword argument", ""},
		{"0.10.0", "--attention-config", `{}`, "unrecognized arguments", "vLLM has it since 0.13.0"},
	} {
		_, refusal := Serve.Check(c.version, c.option, c.value)
		if c.says == "" {
			require.Nil(t, refusal, "%s %s %s", c.version, c.option, c.value)
			continue
		}
		require.NotNil(t, refusal, "%s %s %s", c.version, c.option, c.value)
		require.Contains(t, refusal.Words, c.says)
		require.Contains(t, refusal.Hint, c.hint)
		if c.version == "0.14.0" {
			require.Contains(t, refusal.Says(), "does not use it")
		}
	}
	_, err := exactly("0.32.0").Parse([]string{"m", "--speculative-config", `{"methd": "ngram"}`})
	require.NoError(t, err, "the parser takes it, the server does not")
}

// Each member of each object, right, wrong and misspelt, for the real parser of vLLM 0.32.0.
//
// covers: CFG-1, CFG-2
func TestVLLMMembers(t *testing.T) {
	home, r := realVLLM(t), exactly("0.32.0")
	var tries []try
	for _, o := range objects() {
		form, ok := o.at(r.Version)
		if !ok || form.Late {
			continue
		}
		add := func(name string, value any) {
			keys := strings.Split(name, ".")
			for i := len(keys) - 1; i >= 0; i-- {
				value = map[string]any{keys[i]: value}
			}
			text, err := json.Marshal(value)
			require.NoError(t, err)
			tries = append(tries, try{Args: []string{filepath.Join(home, "tiny"), o.Name, string(text)}})
		}
		add("no_such_member", 1)
		for _, m := range o.Members {
			if f, ok := m.FormAt(r.Version); ok {
				for _, v := range membersValues(f) {
					add(m.Name, v)
				}
				add(m.Name+"_x", 1)
			}
		}
	}
	said, _ := askParser(t, home, Serve, tries)
	taken, refused, others := 0, 0, 0
	for i, x := range tries {
		_, err := r.Parse(x.Args)
		switch vllm := said[i]; {
		case err == nil && vllm == "ok":
			taken++
		case err == nil && strings.Contains(vllm, "type=value_error"): // by what other members say
			others++
		case err == nil || vllm == "ok" || !agreeOnMembers(vllm, err.Error()):
			t.Errorf("%q:\n vLLM says %s\n we say    %v", x.Args[1:], vllm, err)
		default:
			refused++
		}
	}
	t.Logf("%d objects taken and %d refused by both; %d that vLLM refuses for what their members say together", taken, refused, others)
	require.Greater(t, refused, 400)
}

// membersValues are right and wrong values of a member whose kind is known.
func membersValues(f Form) (list []any) {
	switch {
	case f.Choices != nil:
		for _, c := range f.Choices {
			list = append(list, c)
		}
		return append(list, "nothing-such", 3)
	case f.Type == "int":
		return []any{1, "2", 2.0, true, 2.5, "lots", "", []int{1}, -1e6, map[string]any{}}
	case f.Type == "float":
		return []any{1, 0.5, "0.25", true, "lots", []int{1}, map[string]any{}}
	case f.Type == "bool":
		return []any{true, false, "yes", "OFF", 1, 0, 2, "maybe", 0.5, []int{1}}
	case f.Type == "json":
		return []any{map[string]any{}, 3, "x"}
	}
	return nil
}

// agreeOnMembers reports whether vLLM says of some member what we say of the first.
func agreeOnMembers(vllm, ours string) bool {
	_, first, _ := strings.Cut(ours, " for ")
	_, first, _ = strings.Cut(first, ": ")
	path, words, ok := strings.Cut(first, ": ")
	words, _, _ = strings.Cut(words, "; ")
	// Of choices in several lists, vLLM names each list.
	return ok && (strings.Contains(vllm, path+"   "+words) || strings.Contains(vllm, path+".literal["))
}
