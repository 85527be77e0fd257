package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/upload"
)

// childVar makes the test binary a server of the folder that it names, which uploads to itself what lies in the
// folder sent.
const childVar = "PROFLLM_DASHBOARD_CHILD"

func TestMain(m *testing.M) {
	if box := os.Getenv(childVar); box != "" {
		if err := child(context.Background(), box); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// child serves, uploads each file of sent, keeps the name of each accepted upload in acked, and ends when all are done.
func child(ctx context.Context, box string) error {
	db, err := store.Open(ctx, filepath.Join(box, "runs.db"), store.Options{Create: true})
	if err != nil {
		return err
	}
	live, err := dashboard.Load(ctx, db)
	if err != nil {
		return err
	}
	spool, err := upload.Open(filepath.Join(box, "spool"), upload.Options{
		Collector: &collect.Collector{Version: "test", Bench: catalog.Benches, Eval: catalog.Evals}, Put: putter(live, nil),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() {
		ended <- dashboard.New(live, dashboard.Options{Uploads: spool}).Serve(ctx, l)
	}()
	go func() { ended <- spool.Work(ctx) }()
	err = uploadAll(box, "http://"+l.Addr().String())
	cancel()
	return errors.Join(err, <-ended, <-ended, spool.Close(), db.Close())
}

func uploadAll(box, url string) error {
	files, err := filepath.Glob(filepath.Join(box, "sent", "*"))
	if err != nil {
		return err
	}
	var jobs []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		body := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + filepath.Base(name) + "\"\r\n\r\n" + string(data) + "\r\n--b--\r\n"
		got, err := http.Post(url+"/api/upload/json", "multipart/form-data; boundary=b", strings.NewReader(body))
		if err != nil {
			return err
		}
		var st upload.Status
		err = json.NewDecoder(got.Body).Decode(&st)
		got.Body.Close()
		if err != nil || got.StatusCode != http.StatusAccepted {
			return fmt.Errorf("%s: %d: %w", name, got.StatusCode, err)
		}
		if err := os.WriteFile(filepath.Join(box, "acked", filepath.Base(name)), []byte(st.Job), 0o600); err != nil {
			return err
		}
		jobs = append(jobs, st.Job)
	}
	for _, job := range jobs {
		for {
			got, err := http.Get(url + "/api/upload/status/" + job)
			if err != nil {
				return err
			}
			var st upload.Status
			err = json.NewDecoder(got.Body).Decode(&st)
			got.Body.Close()
			if err != nil {
				return err
			}
			if st.State == upload.Done {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}
