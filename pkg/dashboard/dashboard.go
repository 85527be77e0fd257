// Package dashboard serves the results of a store: an HTTP API, and a page that uses it.
//
// What a page concludes is computed by the packages that the commands use: query for
// filters, report for comparisons and trends. The API's document is at /api/openapi.json.
//
//	live, err := dashboard.Load(ctx, store)
//	s := dashboard.New(live, dashboard.Options{Version: "v1.0.0"})
//	err = s.Serve(ctx, listener)
package dashboard

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/sync/semaphore"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/upload"
)

// Options of a server.
type Options struct {
	Version string // of profllm
	Token   string // that writes must carry; "" for none
	// TokenForReads makes reads of the store carry the token as well.
	TokenForReads bool
	ReadOnly      bool     // nothing is written
	Demo          bool     // every run is simulated
	Hosts         []string // names that the server answers for, besides addresses and localhost
	// Roots are folders, without links in their names, below which files of runs may be read.
	Roots []string
	Log   func(format string, args ...any) // hears of faults of the program; nil: nobody does
	// Uploads takes files; nil if the server takes none.
	Uploads *upload.Spool
	// AtOnce is how many uploads are received at once, others wait; 0: 32.
	AtOnce int
	// Patience is how long a client may send nothing; 0: 30 s.
	Patience time.Duration
}

// Server answers requests.
type Server struct {
	store *Live
	opts  Options
	mux   *http.ServeMux
	api   huma.API
	slots chan struct{}       // one for each upload that is being received
	room  *semaphore.Weighted // of values in memory
	// analyses has one for each analysis that is under way.
	analyses chan struct{}
	counts
}

// New returns a server of a store's runs.
func New(l *Live, o Options) *Server {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.AtOnce = cmp.Or(o.AtOnce, 32)
	o.Patience = cmp.Or(o.Patience, timeLimit)
	d := &Server{
		store: l, opts: o, mux: http.NewServeMux(),
		slots: make(chan struct{}, o.AtOnce), analyses: make(chan struct{}, mostAnalyses), room: semaphore.NewWeighted(mostAtOnce),
	}
	d.api = humago.New(d.mux, config(o.Version))
	d.addHealth()
	d.addMetrics()
	d.addFilters()
	d.addData()
	d.addAnalysis()
	d.addExplore()
	d.addExport()
	d.addFiles()
	d.addUploads()
	d.addPage()
	d.documentTokens()
	return d
}

// Handler answers all requests of the server.
func (d *Server) Handler() http.Handler {
	// Somebody waits for each answer: the quickest level takes a third of the default's time, and gives a few
	// percent more bytes.
	compressed, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic(err) // the level is one that there is
	}
	return d.counted(compressed(d.guarded(routed(d.mux))))
}

// config is that of the API: its document names no other server, and answers have no
// fields beyond their own.
func config(version string) huma.Config {
	c := huma.DefaultConfig("profllm dashboard", version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "/api/openapi", "", ""
	c.CreateHooks = nil
	byItself := huma.DefaultJSONFormat
	byItself.Marshal = func(w io.Writer, v any) error {
		if x, ok := v.(interface{ writeJSON(w io.Writer) error }); ok {
			return x.writeJSON(w)
		}
		return huma.DefaultJSONFormat.Marshal(w, v)
	}
	c.Formats = map[string]huma.Format{"application/json": byItself, "json": byItself}
	c.Info.Description = "Results of LLM serving benchmarks: filters, records, comparisons, trends. " +
		"Times are RFC 3339 in records and Unix milliseconds in fields of kind time."
	for _, t := range []reflect.Type{ // that write themselves, or have a document of their own
		reflect.TypeFor[field.Value](), reflect.TypeFor[json.RawMessage](),
		reflect.TypeFor[report.Report](), reflect.TypeFor[report.Delta](),
	} {
		c.Components.Schemas.RegisterTypeAlias(t, reflect.TypeFor[any]())
	}
	return c
}

// failed is the answer to an error: of the request, of a run that is not there, or of the
// store, of which the client reads no more than store.Reason.
func (d *Server) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return huma.Error404NotFound(err.Error())
	case errors.Is(err, store.ErrPreset):
		return refused(err)
	case errors.Is(err, errChanged):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return huma.NewError(http.StatusGatewayTimeout, "the answer took longer than the time limit; narrow the filter")
	case errors.Is(err, context.Canceled):
		return huma.NewError(statusClosed, "the client went away")
	}
	d.opts.Log("a request was not answered: %v", err)
	return huma.Error500InternalServerError(store.Reason(err))
}

// statusClosed is nginx's code for a client that closed its connection.
const statusClosed = 499

// refused is the answer to a request that cannot be understood.
func refused(err error) error { return huma.Error422UnprocessableEntity(err.Error()) }
