package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// dist is the page as web/ builds it.
//
//go:embed all:dist
var dist embed.FS

// addPage serves the page's files. The paths of its views are the page's own: each gives
// the same document.
func (d *Server) addPage() {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	server := http.FileServerFS(files)
	d.mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		switch {
		case strings.HasPrefix(name, "api/"):
			problem(w, http.StatusNotFound, "the API has no "+r.URL.Path+"; /api/openapi.json lists what it has")
			return
		case strings.HasPrefix(name, "assets/"): // their names change with their content
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		default:
			w.Header().Set("Cache-Control", "no-cache")
			if _, err := fs.Stat(files, name); name == "" || err != nil {
				r.URL.Path = "/"
			}
		}
		server.ServeHTTP(w, r)
	})
}
