package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVocabularySize(t *testing.T) {
	tests := map[string]struct {
		config string
		want   int
	}{
		"plain":      {`{"vocab_size": 32000}`, 32000},
		"multimodal": {`{"text_config": {"vocab_size": 262208}}`, 262208},
		"not there":  {`{}`, 0},
		"negative":   {`{"vocab_size": -4}`, 0},
		"no JSON":    {`vocab`, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600))
			require.Equal(t, tt.want, vocabulary(dir))
		})
	}
	require.Zero(t, vocabulary("meta-llama/Llama-3.1-8B"))
}
