package sim

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/sim/program"
)

// dynamoService starts workers and a frontend that find each other in one folder, and returns the
// frontend's URL. Each line is a module and its options.
func dynamoService(t *testing.T, settings map[string]string, lines ...string) (url string, workers []*command,
	status []string) {
	t.Helper()
	all := map[string]string{"DYN_FILE_KV": t.TempDir(), "PROFLLM_NODE_ADDR": "127.0.0.1"}
	maps.Copy(all, settings)
	for _, line := range lines {
		own := maps.Clone(all)
		address := freeAddress(t)
		_, own["DYN_SYSTEM_PORT"], _ = net.SplitHostPort(address)
		w := start(t, own, append([]string{"python3", "-m"}, strings.Fields(line)...)...)
		w.await(t, "Registered as ")
		workers, status = append(workers, w), append(status, "http://"+address)
	}
	f := start(t, all, "python3", "-m", "dynamo.frontend", "--http-port", "0", "--router-mode", "kv")
	return f.await(t, `Starting HTTP service \(profllm sim\) on (http://\S+)`), workers, status
}

func complete(t *testing.T, url, more string) (int, string) {
	t.Helper()
	res, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a few words of a prompt that fills blocks","max_tokens":3,"ignore_eos":true`+more+"}"))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Empty(t, res.Header.Get("X-Profllm-Sim-Prompt-Tokens"), "that is between worker and frontend")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	return port
}

// A worker of each backend answers behind the frontend, which counts what registered and what it
// answered.
//
// covers: P-22
func TestDynamoAggregated(t *testing.T) {
	for module, page := range map[string][]string{
		"dynamo.vllm --model m":                              {"vllm:generation_tokens_total"},
		"dynamo.sglang --model-path m --served-model-name m": {},
		"dynamo.mocker --model-path x --model-name m":        {"vllm:kv_cache_usage_perc"},
	} {
		t.Run(strings.Fields(module)[0], func(t *testing.T) {
			url, workers, status := dynamoService(t, nil, module)
			_, health := get(t, url+"/health")
			require.Contains(t, health, `"component":"backend","endpoint":"generate","namespace":"dynamo"`)
			require.Contains(t, health, `"simulated":true`)
			_, models := get(t, url+"/v1/models")
			require.Contains(t, models, `"id":"m"`)
			require.Contains(t, models, `"owned_by":"profllm-sim"`)
			_, ready := get(t, status[0]+"/health")
			require.Contains(t, ready, `"endpoints":{"generate":"ready"}`)

			code, said := complete(t, url, `,"model":"m"`)
			require.Equal(t, http.StatusOK, code, said)
			require.Contains(t, strings.ReplaceAll(said, " ", ""), `"completion_tokens":3`)
			code, said = complete(t, url, `,"model":"m","stream":true`)
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, 4, strings.Count(said, "data: "), "three tokens and the end")
			code, said = complete(t, url, `,"model":"other"`)
			require.Equal(t, http.StatusNotFound, code)
			require.Contains(t, said, `"message":"Model not found"`)
			code, _ = complete(t, url, `,"model":`)
			require.Equal(t, http.StatusBadRequest, code)

			_, counters := get(t, url+"/metrics")
			for _, line := range []string{
				`dynamo_frontend_requests_total{endpoint="completions",error_type="",model="m",request_type="stream",status="success"} 1`,
				`dynamo_frontend_requests_total{endpoint="completions",error_type="not_found",model="m",request_type="unary",status="error"} 1`,
				`dynamo_frontend_input_sequence_tokens_count{model="m"} 2`, `dynamo_frontend_cached_tokens_sum{model="m"} 32`,
			} {
				require.Contains(t, counters, line+"\n")
			}
			_, own := get(t, status[0]+"/metrics")
			require.Contains(t, own,
				`dynamo_component_requests_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo"} 2`)
			for _, name := range page {
				require.Contains(t, own, name)
			}
			require.Equal(t, strings.Contains(module, "vllm"), strings.Contains(own, "vllm:generation_tokens_total"))

			workers[0].cancel()
			require.Equal(t, program.OK, workers[0].exit(t))
			code, said = complete(t, url, "")
			require.Equal(t, http.StatusServiceUnavailable, code, said)
		})
	}
}

// Prefill computes the prompt, and decode fetches it from there.
func TestDynamoDisaggregated(t *testing.T) {
	const nixl = ` --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_both"}`
	for name, lines := range map[string][2]string{
		"vllm": {"dynamo.vllm --model m --disaggregation-mode prefill" + nixl, "dynamo.vllm --model m --disaggregation-mode decode" + nixl},
		"mocker": {"dynamo.mocker --model-path m --model-name m --is-prefill-worker --bootstrap-ports 0",
			"dynamo.mocker --model-path m --model-name m --is-decode-worker"},
		"sglang": {"dynamo.sglang --model-path m --disaggregation-mode prefill --disaggregation-bootstrap-port " + freePort(t),
			"dynamo.sglang --model-path m --disaggregation-mode decode"},
	} {
		t.Run(name, func(t *testing.T) {
			url, workers, status := dynamoService(t, nil, lines[0], lines[1])
			_, health := get(t, url+"/health")
			require.Contains(t, health, `"component":"prefill"`)
			code, said := complete(t, url, `,"model":"m","stream":true`)
			require.Equal(t, http.StatusOK, code, said)
			require.Equal(t, 4, strings.Count(said, "data: "))
			for i, component := range []string{"prefill", "backend"} {
				_, own := get(t, status[i]+"/metrics")
				require.Contains(t, own, `dynamo_component_requests_total{dynamo_component="`+component+`",`)
				require.Contains(t, own, `dynamo_namespace="dynamo"} 1`)
				if name == "vllm" {
					require.Contains(t, own, fmt.Sprintf(`vllm:nixl_bytes_transferred_count{engine="0",model_name="m"} %d.0`, i))
				}
			}
			workers[0].cancel()
			workers[0].exit(t)
			code, _ = complete(t, url, "")
			require.Equal(t, http.StatusOK, code, "without prefill, decode computes the prompt")
		})
	}
}

// A worker that dies leaves its registration behind, and is gone for the frontend once it takes no
// connection any more. The others answer.
func TestDynamoWorkerDies(t *testing.T) {
	url, workers, _ := dynamoService(t, map[string]string{"PROFLLM_ROLE": "decode", "PROFLLM_SIM_FAULTS": "decode:die-on-request=1"},
		"dynamo.mocker --model-path m --model-name m --num-workers 2")
	code, _ := complete(t, url, "")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, program.Failed, workers[0].exit(t))
	await.True(t, func() bool {
		code, _ = complete(t, url, "")
		return code == http.StatusServiceUnavailable
	}, "both instances of the worker are gone")
	_, health := get(t, url+"/health")
	require.Contains(t, health, `"instances":[]`)
}

// What a simulated process of Dynamo refuses.
func TestDynamoRefuses(t *testing.T) {
	folder := map[string]string{"DYN_FILE_KV": t.TempDir()}
	for _, c := range []struct {
		line, want string
		env        map[string]string
		code       int
	}{
		{"dynamo.trtllm", "python3 -m dynamo.trtllm is not simulated: want dynamo.vllm", folder, program.Missing},
		{"dynamo.frontend", "DYN_FILE_KV is not set", nil, program.Usage},
		{"dynamo.frontend --http-port x", "--http-port", folder, program.Usage},
		{"dynamo.vllm", "no model", folder, program.Usage},
		{"dynamo.mocker", "--model-path is missing", folder, program.Usage},
		{"dynamo.mocker --model-path m --num-workers 0", "--num-workers", folder, program.Usage},
		{"dynamo.mocker --model-path m --disaggregation-mode x", "want prefill or decode", folder, program.Usage},
		{"dynamo.mocker --model-path m --endpoint generate", "want dyn://namespace.component.endpoint", folder, program.Usage},
	} {
		code, _, errs := run(t, c.env, append([]string{"python3", "-m"}, strings.Fields(c.line)...)...)
		require.Equal(t, c.code, code, c.line)
		require.Contains(t, errs, c.want)
	}
}

// A process that cannot reach etcd says so, and one that can goes on. Files of others in the folder
// are no workers.
func TestDynamoControlPlane(t *testing.T) {
	dir := t.TempDir()
	instances := filepath.Join(dir, "v1", "instances")
	require.NoError(t, os.MkdirAll(instances, 0o755))
	for name, text := range map[string]string{"real": `{"component":"backend","endpoint":"generate"}`, "half": `{"comp`,
		".new": `{"component":"backend","endpoint":"generate","simulated":true}`} {
		require.NoError(t, os.WriteFile(filepath.Join(instances, name), []byte(text), 0o644))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	set := map[string]string{"DYN_FILE_KV": dir, "ETCD_ENDPOINTS": "http://" + l.Addr().String(), "PROFLLM_NODE_ADDR": "127.0.0.1"}
	f := start(t, set, "python3", "-m", "dynamo.frontend", "--http-port", "0")
	_, health := get(t, f.await(t, `Starting HTTP service \(profllm sim\) on (http://\S+)`)+"/health")
	require.Contains(t, health, `"instances":[]`)

	set["ETCD_ENDPOINTS"] = "http://" + freeAddress(t)
	f = start(t, set, "python3", "-m", "dynamo.frontend", "--http-port", "0")
	f.cancel() // it would go on trying for a while
	require.Equal(t, program.Failed, f.exit(t))
	require.Contains(t, f.err.String(), "Could not connect to etcd")
}
