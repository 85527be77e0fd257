package dashboard_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/upload"
)

const release = "../result/testdata/releases/2026-11-22/release"

// packedTar is an archive of entries; a file has as many zeros as its header says, or the text.
func packedTar(t *testing.T, entries ...any) string {
	t.Helper()
	var b bytes.Buffer
	x, err := xz.NewWriter(&b)
	require.NoError(t, err)
	writeTar(t, x, entries...)
	require.NoError(t, x.Close())
	return b.String()
}

func writeTar(t *testing.T, to io.Writer, entries ...any) {
	t.Helper()
	w := tar.NewWriter(to)
	for i := 0; i < len(entries); i++ {
		h := *entries[i].(*tar.Header)
		var content io.Reader = io.LimitReader(zeros{}, h.Size)
		if i+1 < len(entries) {
			if text, ok := entries[i+1].(string); ok {
				content, h.Size = strings.NewReader(text), int64(len(text))
				i++
			}
		}
		require.NoError(t, w.WriteHeader(&h))
		_, err := io.Copy(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func folder(name string) *tar.Header {
	return &tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}
}

func file(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}
}

func special(name string, kind byte, to string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Linkname: to, Mode: 0o644}
}

// goodRecord is one of a release, changed as a map.
func goodRecord(t *testing.T, change func(map[string]any)) string {
	t.Helper()
	data, err := os.ReadFile(release + "/aggregated/0/result.json")
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	if change != nil {
		change(m)
	}
	data, err = json.Marshal(m)
	require.NoError(t, err)
	return string(data)
}

// hostileFile is a file that is refused once it is read, and what is said of it.
type hostileFile struct{ name, file, content, says string }

func hostileFiles(t *testing.T) []hostileFile {
	t.Helper()
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	writeTar(t, z, folder("d"), file("d/result.json", 64<<20))
	require.NoError(t, z.Close())
	bomb := packedTar(t, folder("d"), file("d/result.json", 32<<20))
	many, deep := []any{folder("d")}, []any{}
	for i := range 1000 {
		many = append(many, file(fmt.Sprintf("d/%d", i), 0))
	}
	for i := range 300 {
		deep = append(deep, folder("d"+strings.Repeat("/d", i)))
	}
	whole := packedTar(t, folder("d"), file("d/result.json", 0), goodRecord(t, nil))
	record := goodRecord(t, nil)
	return []hostileFile{
		{"bomb of xz", "night.tar.xz", bomb, "larger than allowed"},
		{"bomb of gzip", "night.tar.gz", gz.String(), "control characters"},
		{"bomb in an archive", "night.tar.xz", packedTar(t, folder("d"), file("d/inner.tar.xz", 0), bomb), "no record"},
		{"bomb of gzip in an archive", "night.tar.xz", packedTar(t, folder("d"), file("d/inner.tar.gz", 0), gz.String()), "no record"},
		{"bomb as a packed log", "night.tar.xz", packedTar(t, folder("d"), file("d/result.json.xz", 0), bomb), "no record"},
		{"a size that is a lie", "night.tar.xz", packedTar(t, folder("d"), file("d/x", 0), "x")[:100], "night.tar.xz"},
		{"path that leads out", "night.tar.xz", packedTar(t, folder("d"), file("d/../../out", 3)), "not a name below"},
		{"absolute name", "night.tar.xz", packedTar(t, folder("d"), file("/etc/out", 3)), "not a name below"},
		{"link that leads out", "night.tar.xz", packedTar(t, folder("d"), special("d/l", tar.TypeSymlink, "/etc/passwd")), "lead out"},
		{"file behind a link", "night.tar.xz", packedTar(t, folder("d"), special("d/l", tar.TypeSymlink, ".."), file("d/l/out", 3)), "no directory for"},
		{"hard link", "night.tar.xz", packedTar(t, folder("d"), special("d/h", tar.TypeLink, "/etc/passwd")), "neither a file"},
		{"device", "night.tar.xz", packedTar(t, folder("d"), special("d/c", tar.TypeChar, "")), "neither a file"},
		{"pipe", "night.tar.xz", packedTar(t, folder("d"), special("d/result.json", tar.TypeFifo, "")), "neither a file"},
		{"link as a record", "night.tar.xz", packedTar(t, folder("d"), special("d/result.json", tar.TypeSymlink, "result.json")), "no record"},
		{"names that a terminal obeys", "night.tar.xz", packedTar(t, folder("d"), folder("d/x\x1b[2J"), file("d/x\x1b[2J/result.json", 3)), `x\u001b[2J`},
		{"many entries", "night.tar.xz", packedTar(t, many...), "more than 1000 entries"},
		{"deep folders", "night.tar.xz", packedTar(t, deep...), "more than 200 folders"},
		{"folders that keep the reader out", "night.tar.xz", packedTar(t, folder("d"), &tar.Header{Name: "d/x/", Typeflag: tar.TypeDir}), "no record"},
		{"cut archive", "night.tar.xz", whole[:len(whole)/2], "night.tar.xz"},
		{"archive with a wrong byte", "night.tar.xz", whole[:200] + "x" + whole[201:], "night.tar.xz"},
		{"other content than the name says", "night.tar.xz", record, "xz"},
		{"record that is a folder of an archive", "night.tar.xz", packedTar(t, folder("result.json"), folder("result.json/result.json")), "no record"},
		{"deep JSON", "a.json", `{"schema": "profllm.result/1", "x": ` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}", "depth"},
		{"deep JSON of another program", "a.json", strings.Repeat(`{"a":`, 1_000_000) + "1" + strings.Repeat("}", 1_000_000), "a.json"},
		{"huge number", "a.json", strings.Replace(record, `"completed_requests":`, `"completed_requests":1e999,"x":`, 1), "number"},
		{"number with a million digits", "a.json", `{"schema": "profllm.result/1", "metrics_version": 1` + strings.Repeat("0", 1_000_000) + `}`, "number"},
		{"NaN", "a.json", strings.Replace(record, `"duration_s":`, `"duration_s": NaN, "x":`, 1), "invalid character"},
		{"cut record", "a.json", record[:len(record)/2], "unexpected end"},
		{"not UTF-8", "a.json", "\xff\xfe{\x00}\x00", "unknown format"},
		{"empty", "a.json", "", "empty"},
		{"false verdict", "a.json", goodRecord(t, func(m map[string]any) {
			v := m["validity"].(map[string]any)
			v["valid"], v["verdict"] = v["valid"] != true, "invalid"
		}), "changed after it was judged"},
		{"number that was changed", "a.json", goodRecord(t, func(m map[string]any) {
			m["results"].(map[string]any)["output_throughput"] = 1e12
		}), "changed after it was judged"},
	}
}

// An upload of whatever content is refused with a status and words that name the file, or its job says so; the
// server goes on, takes little memory, writes nothing outside of its spool, and stores nothing of it.
//
// covers: API-1, API-2, API-3, API-4, UI-15, SM-4
func TestHostileUploads(t *testing.T) {
	s := start(t, t.TempDir(), config{ups: upload.Options{Bytes: 8 << 20, Entries: 1000, Files: 100}})
	for _, c := range hostileFiles(t) {
		t.Run(c.name, func(t *testing.T) {
			body, kind := form(t, c.file, c.content)
			status, answer, _ := s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
			require.Equal(t, 202, status, "%s", answer)
			var st upload.Status
			require.NoError(t, json.Unmarshal(answer, &st))
			got := s.uploaded(st.Job)
			require.Len(t, got.Files, 1)
			require.Equal(t, c.file, got.Files[0].Name)
			said := got.Files[0].Error + strings.Join(got.Files[0].Notes, "\n")
			require.NotEmpty(t, got.Files[0].Error)
			if c.says != c.file {
				require.Contains(t, said, c.says)
			}
			require.NotContains(t, said, s.box)
			require.Less(t, len(said), 5000)
			require.Empty(t, got.Files[0].Outcome)
			require.Zero(t, s.runs())
			s.well()
		})
	}
}

// oddForm is a form that is refused before anything is accepted, and how.
type oddForm struct {
	name   string
	body   func() (string, string)
	status int
	says   string
}

func oddForms(t *testing.T) []oddForm {
	t.Helper()
	files := func(n int) (string, string) {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%d.json", i), "{}")
		}
		return form(t, list...)
	}
	good, kind := files(1)
	fields := func(n int) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for range n {
			require.NoError(t, w.WriteField("x", ""))
		}
		require.NoError(t, w.Close())
		return b.String(), w.FormDataContentType()
	}
	return []oddForm{
		{"a name that leads out", func() (string, string) { return form(t, "../../out.json", "{}") }, 422, `"../../out.json"`},
		{"a name that leads out of another system", func() (string, string) { return form(t, `..\\out.json`, "{}") }, 422, "out.json"},
		{"a name with NUL", raw("a\x00b.json"), 422, ""},
		{"a name with a newline", raw("a%0Ab.json\x01"), 422, ""},
		{"a name that a terminal obeys", raw("a\x1b[2J.json"), 422, `\x1b[2J`},
		{"a name that is not UTF-8", raw("a\xff.json"), 422, "file name"},
		{"a long name", func() (string, string) { return form(t, strings.Repeat("x", 300), "{}") }, 422, "xxx"},
		{"deep folders", func() (string, string) { return form(t, strings.Repeat("d/", 100)+"a.json", "{}") }, 422, "d/d/d"},
		{"a name twice", func() (string, string) { return form(t, "a.json", "{}", "a.json", "{}") }, 422, "sent twice"},
		{"a large file", func() (string, string) { return form(t, "small.json", "{}", "large.json", strings.Repeat("x", 1<<20)) }, 413, `"large.json"`},
		{"many files", func() (string, string) { return files(101) }, 413, `"100.json"`},
		{"100,000 parts", func() (string, string) { return fields(100_000) }, 413, "parts"},
		{"a field without end", func() (string, string) {
			var b bytes.Buffer
			w := multipart.NewWriter(&b)
			require.NoError(t, w.WriteField("x", strings.Repeat("x", 40<<20)))
			return b.String(), w.FormDataContentType()
		}, 413, "too large"},
		{"no files", func() (string, string) { return files(0) }, 422, "no file was sent"},
		{"a cut form", func() (string, string) { return good[:len(good)-20], kind }, 422, "0.json"},
		{"a wrong boundary", func() (string, string) { return good, "multipart/form-data; boundary=wrong" }, 422, "no file"},
		{"no boundary", func() (string, string) { return good, "multipart/form-data" }, 415, "boundary"},
		{"an endless boundary", func() (string, string) { return good, "multipart/form-data; boundary=" + strings.Repeat("x", 10_000) }, 422, "no file"},
		{"no type", func() (string, string) { return good, "" }, 415, "multipart"},
		{"another type", func() (string, string) { return good, "application/x-tar" }, 415, "multipart"},
		{"a head that is not one", func() (string, string) {
			return strings.Replace(good, "Content-Disposition", "Content-\x00Disposition", 1), kind
		}, 422, "cannot be read"},
		{"a large head", func() (string, string) {
			return strings.Replace(good, "Content-Disposition", "X: "+strings.Repeat("x", 20<<20)+"\r\nContent-Disposition", 1), kind
		}, 422, "too large"},
	}
}

// Uploads that are refused before anything is accepted.
//
// covers: API-1, API-2, API-3
func TestUploadsRefusedAtOnce(t *testing.T) {
	s := start(t, t.TempDir(), config{ups: upload.Options{Bytes: 1 << 20, Files: 100}})
	for _, c := range oddForms(t) {
		t.Run(c.name, func(t *testing.T) {
			body, kind := c.body()
			status, answer, head := s.send("POST", "/api/upload/batch", kind, strings.NewReader(body))
			require.Equal(t, c.status, status, "%.500s", answer)
			require.Equal(t, "application/problem+json", head.Get("Content-Type"))
			var p problemOf
			require.NoError(t, json.Unmarshal(answer, &p))
			require.Equal(t, c.status, p.Status)
			require.Contains(t, p.Detail, c.says)
			require.NotContains(t, p.Detail, s.box)
			require.Less(t, len(p.Detail), 2000)
			s.well()
		})
	}
	entries, err := os.ReadDir(s.box + "/spool")
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing of them was accepted")
}

// raw is a form with a file of any name.
func raw(name string) func() (string, string) {
	return func() (string, string) {
		return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n{}\r\n--b--\r\n",
			"multipart/form-data; boundary=b"
	}
}

// What is stored of a hostile record does no harm: secrets are taken out, formulas are texts in a spreadsheet, a
// verdict without checks is not believed.
//
// covers: API-13, DASH-4
func TestHostileRecordsThatAreStored(t *testing.T) {
	const secret = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
	s := start(t, t.TempDir(), config{})
	put := func(change func(map[string]any)) (id string) {
		status, answer, _ := s.send("POST", "/api/upload/raw", "application/json", strings.NewReader(goodRecord(t, change)))
		require.Equal(t, 202, status, "%s", answer)
		var st upload.Status
		require.NoError(t, json.Unmarshal(answer, &st))
		f := s.uploaded(st.Job).Files[0]
		require.Equal(t, map[string]int{"stored": 1}, f.Outcome, "%+v", f)
		return f.Runs[0]
	}
	id := put(func(m map[string]any) {
		m["run_id"], m["suite"] = "=1+1", "@SUM(A1)|cmd"
		m["failure"] = map[string]any{"cause": "unknown", "confidence": "unknown", "next": "x",
			"line": "token " + secret + " refused", "tail": []any{"HF_TOKEN=" + secret}}
		m["config"].(map[string]any)["settings"] = map[string]any{
			"extra_env_vars.HF_TOKEN": secret, "cmd_args.api_key": "some secret words",
			"extra_env_vars.x": `=HYPERLINK("x")`, "no.field": "x", "verdict": "valid"}
		c := m["validity"].(map[string]any)["checks"].([]any)[0].(map[string]any)
		c["detail"] = "Authorization: Bearer " + secret
	})
	require.Equal(t, "=1+1", id)
	_, answer, _ := s.send("GET", "/api/data/experiments/%3D1%2B1", "", nil)
	require.Contains(t, string(answer), "@SUM")
	require.NotContains(t, string(answer), secret)
	require.NotContains(t, string(answer), "some secret words")
	_, answer, _ = s.send("POST", "/api/export/csv", "application/json", strings.NewReader(`{}`))
	require.Contains(t, string(answer), "\n'=1+1,")
	require.Contains(t, string(answer), ",'@SUM(A1)|cmd,")
	require.Contains(t, string(answer), `"'=HYPERLINK(""x"")"`)
	require.NotContains(t, string(answer), secret)

	id = put(func(m map[string]any) {
		m["run_id"], m["validity"] = "exp_unjudged", map[string]any{"valid": true, "verdict": "valid", "checks": []any{}}
		m["results"].(map[string]any)["failed_requests"] = 39
	})
	_, answer, _ = s.send("GET", "/api/data/experiments/"+id, "", nil)
	var one struct {
		Record struct{ Validity struct{ Verdict string } }
	}
	require.NoError(t, json.Unmarshal(answer, &one))
	require.NotEqual(t, "valid", one.Record.Validity.Verdict, "its numbers are judged")
	s.well()
}

// An imported result whose file was changed is refused, whatever its record says.
func TestFalseDigest(t *testing.T) {
	from := t.TempDir()
	require.NoError(t, os.CopyFS(from+"/d", os.DirFS(release+"/aggregated")))
	require.NoError(t, os.MkdirAll(from+"/d/1/raw", 0o700))
	require.NoError(t, os.WriteFile(from+"/d/1/raw/x.json", []byte("{}"), 0o600))
	require.NoError(t, os.WriteFile(from+"/d/1/import.json",
		[]byte(`{"schema": "profllm.import/1", "run_id": "exp_false", "suite": "x", "format": "vllm-serve", "path": "x.json", "file": "x.json", "digest": "sha256:00"}`), 0o600))
	require.NoError(t, os.WriteFile(from+"/d/1/result.json", []byte(goodRecord(t, func(m map[string]any) { m["run_id"] = "exp_false" })), 0o600))
	_, err := archive.Write(t.Context(), from+"/d", from+"/d.tar.xz")
	require.NoError(t, err)
	data, err := os.ReadFile(from + "/d.tar.xz")
	require.NoError(t, err)
	s := start(t, t.TempDir(), config{})
	body, kind := form(t, "d.tar.xz", string(data))
	_, answer, _ := s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
	var st upload.Status
	require.NoError(t, json.Unmarshal(answer, &st))
	f := s.uploaded(st.Job).Files[0]
	require.Contains(t, strings.Join(f.Notes, "\n"), "changed since it was imported", "%+v", f)
}
