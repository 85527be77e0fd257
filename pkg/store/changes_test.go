package store_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/store"
)

func TestChanges(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s := open(t, place)
		held := map[string][]field.Cell{}
		var last int64
		follow := func() (n int) {
			var err error
			last, err = s.Changes(t.Context(), last, func(c store.Change) error {
				n++
				if held[c.ID] = c.Cells; c.Gone {
					delete(held, c.ID)
				}
				return nil
			})
			require.NoError(t, err)
			return n
		}
		runs := released(t)
		list := put(t, s, runs...)
		require.Equal(t, len(runs), follow())
		for i := range runs {
			require.Equal(t, plain(field.Of(&runs[i])), plain(held[list[i].ID]), "run %s", list[i].ID)
		}
		require.Zero(t, follow())

		_, err := s.Delete(t.Context(), list[0].ID, list[1].ID)
		require.NoError(t, err)
		put(t, s, runs[1])
		require.Equal(t, 3, follow(), "two removals, one of which is stored again")
		require.NotContains(t, held, list[0].ID)
		require.Contains(t, held, list[1].ID)
	})
}

// plain are cells by name, in the order of names.
func plain(cells []field.Cell) []string {
	var list []string
	for _, c := range cells {
		data, _ := json.Marshal(c.Value)
		list = append(list, c.Field.Name+" "+string(c.Field.Kind)+" "+string(data))
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return list
}

// covers: API-7, API-8, UI-6
func TestPresets(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s := open(t, place)
		require.NoError(t, s.SetPreset(t.Context(), store.Preset{Name: "b", Filter: json.RawMessage(`{}`)}))
		require.NoError(t, s.SetPreset(t.Context(), store.Preset{Name: "a", View: json.RawMessage(`{"x": 1}`)}))
		require.NoError(t, s.SetPreset(t.Context(), store.Preset{Name: "b", Filter: json.RawMessage(`{"text": "ü"}`)}))
		list, err := s.Presets(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, "a", list[0].Name)
		require.JSONEq(t, `null`, string(list[0].Filter))
		require.JSONEq(t, `{"text": "ü"}`, string(list[1].Filter))
		require.NoError(t, s.DeletePreset(t.Context(), "a"))
		require.NoError(t, s.DeletePreset(t.Context(), "a"))
		list, err = s.Presets(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

// How many presets there are, and how large each is, is bounded: a list has all of them.
//
// covers: API-8
func TestPresetsAreBounded(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s := open(t, place)
		large := store.Preset{Name: "a", View: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}
		require.ErrorIs(t, s.SetPreset(t.Context(), large), store.ErrPreset)
		require.ErrorContains(t, s.SetPreset(t.Context(), large), "65538 bytes, and at most 65536")
		require.ErrorIs(t, s.SetPreset(t.Context(), store.Preset{Name: strings.Repeat("x", 201)}), store.ErrPreset)
		for i := range 1000 {
			require.NoError(t, s.SetPreset(t.Context(), store.Preset{Name: strconv.Itoa(i)}))
		}
		require.ErrorContains(t, s.SetPreset(t.Context(), store.Preset{Name: "more"}), "at most 1000 are kept")
		require.NoError(t, s.SetPreset(t.Context(), store.Preset{Name: "999", Filter: json.RawMessage(`{}`)}), "it is replaced")
		list, err := s.Presets(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1000)
	})
}
