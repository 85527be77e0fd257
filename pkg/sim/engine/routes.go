package engine

import (
	"cmp"
	"io"
	"net/http"
)

// routesOfSGLang adds what SGLang answers and vLLM does not. It has no /metrics without
// --enable-metrics, and its names are not simulated.
func (s *Server) routesOfSGLang(route func(method, path string, h http.HandlerFunc)) {
	route("GET", "/health_generate", func(http.ResponseWriter, *http.Request) {})
	route("POST", "/flush_cache", func(w http.ResponseWriter, _ *http.Request) {
		if s.engine.blocks != nil {
			s.engine.blocks.reset()
		}
		io.WriteString(w, "Cache flushed (profllm sim).\n")
	})
	model := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.Planted.Root, s.config.Model), "tokenizer_path": s.config.Model,
			"is_generation": true, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_model_info", model)
	route("GET", "/model_info", model)
	info := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.Planted.Root, s.config.Model), "tp_size": s.config.TP, "pp_size": s.config.PP,
			"max_running_requests": s.config.MaxSeqs,
			"internal_states":      []map[string]any{{}}, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_server_info", info)
	route("GET", "/server_info", info)
}
