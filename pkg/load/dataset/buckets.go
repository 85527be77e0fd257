package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// A Bucket is a size of pictures or videos, and how often it is drawn.
type Bucket struct {
	Height, Width int // pixels
	Frames        int // 1 is a picture, more are a video
	Share         float64
}

// Buckets are sizes with their shares, as Python writes a dictionary: {(256, 256, 1): 0.5, (720, 1280, 1): 0.5}.
type Buckets []Bucket

// bucketText is a key, which may be quoted, and a value of the dictionary.
var bucketText = lazyregexp.New(`^\s*(["']?)\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,?\s*\)` +
	`(["']?)\s*:\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)\s*(,|$)`)

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Buckets) UnmarshalText(text []byte) error {
	inner, opened := strings.CutPrefix(strings.TrimSpace(string(text)), "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !opened || !closed {
		return fmt.Errorf("%q is no dictionary such as {(256, 256, 1): 0.5, (720, 1280, 1): 0.5}", text)
	}
	*b = nil
	for strings.TrimSpace(inner) != "" {
		m := bucketText.FindStringSubmatch(inner)
		if m == nil || m[1] != m[5] {
			return fmt.Errorf("%q does not begin with (HEIGHT, WIDTH, FRAMES): SHARE", inner)
		}
		share, err := strconv.ParseFloat(m[6], 64)
		if err != nil {
			return fmt.Errorf("the share %q is no number", m[6])
		}
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[2+i]) // at most nine digits
		}
		b.set(Bucket{n[0], n[1], n[2], share})
		inner = inner[len(m[0]):]
	}
	return nil
}

// set appends a bucket. A size that occurs twice keeps its first place and its last share, as in Python.
func (b *Buckets) set(next Bucket) {
	for i, old := range *b {
		if old.Height == next.Height && old.Width == next.Width && old.Frames == next.Frames {
			(*b)[i] = next
			return
		}
	}
	*b = append(*b, next)
}

// modality is what a bucket holds, by vLLM's name.
func (b Bucket) modality() string {
	if b.Frames > 1 {
		return "video"
	}
	return "image"
}

// normalized leaves out buckets without a share, and makes the shares add up to 1.
func (b Buckets) normalized() Buckets {
	var out Buckets
	total := 0.0
	for _, one := range b {
		if one.Share > 0 {
			out = append(out, one)
			total += one.Share
		}
	}
	for i := range out {
		out[i].Share /= total
	}
	return out
}

// Limits are the most items of each modality in one request: {"image": 3}.
type Limits map[string]int

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Limits) UnmarshalText(text []byte) error {
	*l = nil
	if err := json.Unmarshal(text, (*map[string]int)(l)); err != nil || *l == nil {
		return fmt.Errorf("%q is no JSON object of numbers such as {\"image\": 3}", text)
	}
	return nil
}

// mostPixels bounds a picture, and all that are encoded at a time.
const mostPixels = 1 << 26

// checkPictures looks at the flags of random-mm: what vLLM refuses, and videos.
func (f *Flags) checkPictures(c *complaints) {
	c.must("random-mm-base-items-per-request", f.RandomMMBaseItemsPerRequest, 0)
	if r := f.RandomMMNumMMItemsRangeRatio; !(r >= 0 && r <= 1) {
		c.add("--random-mm-num-mm-items-range-ratio is %v, must be from 0 to 1", r)
		return
	}
	if f.RandomBatchSize != 1 {
		c.add("--random-batch-size: a request of random-mm is one prompt")
	}
	for _, b := range f.RandomMMBucketConfig {
		c.addIf(b.check(f.RandomMMLimitMMPerPrompt))
	}
	if len(f.RandomMMBucketConfig.normalized()) == 0 {
		c.add("--random-mm-bucket-config: no size has a share above 0")
	}
	for _, key := range slices.Sorted(maps.Keys(f.RandomMMLimitMMPerPrompt)) {
		if n := f.RandomMMLimitMMPerPrompt[key]; n < 0 {
			c.add("--random-mm-limit-mm-per-prompt: the limit of %q is %d, must be 0 or more", key, n)
		}
	}
	if least, most := f.pictureCounts(); least > most {
		c.add("--random-mm-limit-mm-per-prompt allows %d pictures, but a request is to have %d or more", most, least)
	}
}

// check says what is wrong with a bucket.
func (b Bucket) check(limits Limits) error {
	const flag = "--random-mm-bucket-config: "
	_, limited := limits[b.modality()]
	switch {
	case b.Share < 0 || math.IsInf(b.Share, 0):
		return fmt.Errorf(flag+"the share %v is no number, 0 or more", b.Share)
	case b.Frames > 1 && b.Share > 0:
		return errors.New(flag + "this client makes no videos: give sizes of more than one frame the share 0")
	case b.Frames < 1 || b.Height < 1 || b.Width < 1:
		return fmt.Errorf(flag+"(%d, %d, %d) has a zero", b.Height, b.Width, b.Frames)
	case !limited:
		return fmt.Errorf("--random-mm-limit-mm-per-prompt has no limit for %q, which --random-mm-bucket-config names",
			b.modality())
	case b.Height > math.MaxUint16 || b.Width > math.MaxUint16 || b.Height*b.Width > mostPixels:
		return fmt.Errorf(flag+"(%d, %d, %d) has more than %d pixels, or a side above %d", b.Height, b.Width, b.Frames,
			mostPixels, math.MaxUint16)
	}
	return nil
}

// pictureCounts are the bounds between which the number of pictures of a request is drawn.
func (f *Flags) pictureCounts() (least, most int) {
	n, r := float64(f.RandomMMBaseItemsPerRequest), f.RandomMMNumMMItemsRangeRatio
	least = max(int(math.Floor(n*(1-r))), 0)
	return least, min(int(math.Ceil(n*(1+r))), f.RandomMMLimitMMPerPrompt["image"])
}
