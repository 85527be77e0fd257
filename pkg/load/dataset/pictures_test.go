package dataset

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	_ "image/jpeg"
	"runtime"
	"strings"
	"testing"

	"github.com/profllm/profllm/pkg/pyrand"
	"github.com/stretchr/testify/require"
)

// A lossyTokenizer has no text for the tokens that end with 3, so that prompts have to be filled up.
type lossyTokenizer struct{ wordTokenizer }

func (t lossyTokenizer) Decode(ctx context.Context, lists [][]int) ([]string, error) {
	kept := make([][]int, len(lists))
	for i, ids := range lists {
		for _, id := range ids {
			if id%10 != 3 {
				kept[i] = append(kept[i], id)
			}
		}
	}
	return t.wordTokenizer.Decode(ctx, kept)
}

// marked100 is words100 with an added token that begins a picture.
func marked100(t *testing.T) *Vocabulary {
	t.Helper()
	v := words100(t)
	v.marks[40] = true
	return v
}

// drawnPicture is a picture of vLLM's: its size, and the means of the pixels in two of its corners.
type drawnPicture struct {
	height, width int
	first, last   float64
}

// What RandomMultiModalDataset of vLLM 0.32.0 draws with the seed 5 and a tokenizer like that one.
var drawnPictures = []struct {
	text     string
	output   int
	pictures []drawnPicture
}{
	{"w56 w41 w12 w98 w0 w1 w2 w4 w5 w4", 10, []drawnPicture{{40, 16, 127.3, 128.52}}},
	{"w56 w41 w12 w6 w7 w8 w9 w10 w11 w12 w92", 10,
		[]drawnPicture{{16, 24, 129.27, 132.99}, {40, 16, 123.52, 120.74}, {40, 16, 127.52, 123.8}}},
	{"w56 w41 w12 w29 w30 w31", 11, []drawnPicture{{40, 16, 128.61, 128.89}, {16, 24, 121.38, 127.69}}},
	{"w56 w41 w12 w42 w44 w45 w46 w47 w48 w49 w9", 8,
		[]drawnPicture{{40, 16, 114.23, 127.76}, {40, 16, 136.68, 128.49}, {16, 24, 116.05, 122.78}}},
}

func pictured3(s *Source) {
	s.NumPrompts, s.Seed, s.Chat, s.RandomPrefixLen, s.RandomInputLen, s.RandomOutputLen = 4, 5, true, 3, 6, 10
	s.RandomRangeRatio = RangeRatio{0.5, 0.5}
	s.RandomMMBaseItemsPerRequest, s.RandomMMNumMMItemsRangeRatio = 2, 0.5
	s.RandomMMLimitMMPerPrompt = Limits{"image": 3, "video": 1}
	s.RandomMMBucketConfig = Buckets{{16, 24, 1, 0.25}, {40, 16, 1, 0.5}, {9, 9, 8, 0}}
}

// picturesOf decodes the pictures of a request as it is sent.
func picturesOf(t *testing.T, p Prompt) (text string, pictures []image.Image) {
	t.Helper()
	var messages []struct {
		Role    string
		Content []struct {
			Type, Text string
			ImageURL   struct{ URL string } `json:"image_url"`
		}
	}
	require.NoError(t, json.Unmarshal(p.AppendJSON(nil), &messages))
	require.Len(t, messages, 1)
	require.Equal(t, "user", messages[0].Role)
	for i, part := range messages[0].Content {
		if i == 0 {
			require.Equal(t, "text", part.Type)
			text = part.Text
			continue
		}
		require.Equal(t, "image_url", part.Type)
		raw, ok := strings.CutPrefix(part.ImageURL.URL, "data:image/jpeg;base64,")
		require.True(t, ok)
		file, err := base64.StdEncoding.DecodeString(raw)
		require.NoError(t, err)
		picture, format, err := image.Decode(bytes.NewReader(file))
		require.NoError(t, err)
		require.Equal(t, "jpeg", format)
		pictures = append(pictures, picture)
	}
	return text, pictures
}

// mean is the mean of all colours of 64 pixels, from 0 to 255.
func mean(p image.Image, x, y int) float64 {
	sum := 0.0
	for dx := range 8 {
		for dy := range 8 {
			r, g, b, _ := p.At(x+dx, y+dy).RGBA()
			sum += float64(r>>8 + g>>8 + b>>8)
		}
	}
	return sum / (3 * 64)
}

// Texts, lengths, sizes and pixels are vLLM's, as far as JPEG keeps them.
//
// covers: LBEN-2
func TestPicturesAreVLLMs(t *testing.T) {
	requests, said, err := ask(t, "random-mm", "", func(s *Source) {
		pictured3(s)
		s.Local, s.Tokenizer = marked100(t), lossyTokenizer{}
	})
	require.NoError(t, err)
	require.Empty(t, said)
	require.Len(t, requests, len(drawnPictures))
	for i, want := range drawnPictures {
		text, pictures := picturesOf(t, requests[i].Prompt)
		require.Equal(t, want.text, text)
		require.Equal(t, want.output, requests[i].Output)
		require.Equal(t, Unknown, requests[i].Input, "pictures become tokens in the server")
		require.Len(t, pictures, len(want.pictures))
		for k, p := range want.pictures {
			require.Equal(t, image.Pt(p.width, p.height), pictures[k].Bounds().Size())
			require.InDelta(t, p.first, mean(pictures[k], 0, 0), 5, "request %d, picture %d", i, k)
			require.InDelta(t, p.last, mean(pictures[k], p.width-8, p.height-8), 5, "request %d, picture %d", i, k)
		}
	}
}

// Without a tokenizer, a prompt is ids, of which the client makes text; the pictures go with it.
func TestPicturesWithoutATokenizer(t *testing.T) {
	counts := map[int]int{}
	requests, _, err := ask(t, "random-mm", "", func(s *Source) {
		pictured3(s)
		s.NumPrompts, s.RandomMMNumMMItemsRangeRatio, s.RandomMMBucketConfig = 60, 1, Buckets{{8, 8, 1, 2}}
	})
	require.NoError(t, err)
	for _, r := range requests {
		require.Implements(t, (*Tokens)(nil), r.Prompt)
		require.NotNil(t, r.Pictures)
		counts[len(r.Pictures)]++
	}
	require.Len(t, counts, 4, "from 0 to the limit of 3, although twice the base is 4: %v", counts)
	text, pictures := picturesOf(t, Illustrated{"<&\"", requests[0].Pictures})
	require.Equal(t, "<&\"", text)
	require.Len(t, pictures, len(requests[0].Pictures))
}

func TestPicturesAreBounded(t *testing.T) {
	bounded := func(n int) func(*Source) {
		return func(s *Source) {
			pictured3(s)
			s.NumPrompts, s.RandomMMNumMMItemsRangeRatio, s.RandomMMBucketConfig = n, 0, Buckets{{64, 64, 1, 1}}
			s.most = 15_000
		}
	}
	_, _, err := ask(t, "random-mm", "", bounded(50))
	require.ErrorIs(t, err, errHeld)
	n := 0
	_, after, ok := strings.Cut(err.Error(), "set --num-prompts to ")
	require.True(t, ok, err)
	require.NoError(t, json.Unmarshal([]byte(strings.Fields(after)[0]), &n))
	require.Positive(t, n)
	_, _, err = ask(t, "random-mm", "", bounded(n))
	require.NoError(t, err)
	_, _, err = ask(t, "random-mm", "", bounded(n+1))
	require.ErrorIs(t, err, errHeld)
}

// While pictures are drawn, no more are pending than there are processors to encode them, nor
// pixels than may be held at a time; all reach their requests.
func TestPicturesInFlightAreBounded(t *testing.T) {
	s := Source{Flags: &Flags{}}
	pictured3(&s)
	many := 4 * runtime.GOMAXPROCS(0)
	s.RandomMMBaseItemsPerRequest, s.RandomMMNumMMItemsRangeRatio = many, 0
	s.RandomMMLimitMMPerPrompt, s.RandomMMBucketConfig = Limits{"image": many}, Buckets{{8, 8, 1, 1}}
	for name, c := range map[string]struct{ pixels, pending int }{
		"processors":    {mostPixels, runtime.GOMAXPROCS(0)},
		"pixels":        {64, 1},
		"large picture": {63, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPainter(&s)
			p.mostPixels = c.pixels
			require.NoError(t, p.draw(pyrand.NewGenerator(1), 0))
			require.Len(t, p.pending, c.pending)
			require.Len(t, p.done, many-c.pending)
			requests := make([]Request, 1)
			require.NoError(t, p.finish(requests))
			require.Len(t, requests[0].Pictures, many)
			require.Zero(t, p.pixels)
		})
	}
}

func TestBuckets(t *testing.T) {
	for text, want := range map[string]Buckets{
		"{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}": {{256, 256, 1, 0.5}, {720, 1280, 1, 0.5},
			{720, 1280, 16, 0}},
		` {"(1,2,3)":1e1,'( 4 , 5 , 6, )' : .5 , } `: {{1, 2, 3, 10}, {4, 5, 6, 0.5}},
		"{(1,1,1):1,(2,2,1):2,(1,1,1):3}":            {{1, 1, 1, 3}, {2, 2, 1, 2}},
		"{}":                                         nil,
	} {
		var b Buckets
		require.NoError(t, b.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, b, text)
	}
	for _, text := range []string{"", "{", "[(1,1,1)]", "{(1,1):1}", "{(1,1,1)}", "{(1,1,1):x}", "{(1,1,1):1 (2,2,1):1}",
		`{"(1,1,1)':1}`, "{(1,1,1):1.2.3}", "{(-1,1,1):1}", "{(9999999999,1,1):1}", "{,}"} {
		var b Buckets
		require.Error(t, b.UnmarshalText([]byte(text)), text)
	}
	var l Limits
	require.NoError(t, l.UnmarshalText([]byte(`{"image":3}`)))
	require.Equal(t, Limits{"image": 3}, l)
	for _, text := range []string{"", "null", "3", `{"image":"x"}`, `{"image":1.5}`} {
		require.Error(t, l.UnmarshalText([]byte(text)), text)
	}
}

func FuzzBuckets(f *testing.F) {
	for _, s := range []string{"{(256, 256, 1): 0.5, (720, 1280, 16): 0.0}", `{"(1,2,3)":1e1,}`, "{(1,1,1):-1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b Buckets
		if b.UnmarshalText([]byte(text)) != nil {
			return
		}
		sum := 0.0
		for _, one := range b.normalized() {
			require.Positive(t, one.Share)
			sum += one.Share
		}
		require.True(t, len(b.normalized()) == 0 || sum > 0.99 && sum < 1.01 || sum != sum || sum == 0)
	})
}
