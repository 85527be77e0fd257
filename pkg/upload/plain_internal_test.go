package upload

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever sent a file learns nothing of the server's folders, also where the spool was named by a relative path.
func TestErrorsNameNoFolderOfTheServer(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := Open("uploads", Options{})
	require.NoError(t, err)
	defer s.Close()
	whole, err := filepath.Abs("uploads")
	require.NoError(t, err)
	_, missing := os.Open(filepath.Join(whole, "job-1/work/raw/x.json"))
	require.Equal(t, "open job-1/work/raw/x.json: no such file or directory", s.plain(missing, "", ""))
	got := s.plain(fmt.Errorf("%s/job-1/files/0/run/plan.json: is no plan", whole), whole+"/job-1/files/0", "mine.tgz")
	require.Equal(t, "mine.tgz/run/plan.json: is no plan", got)
}
