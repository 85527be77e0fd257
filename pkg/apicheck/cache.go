package apicheck

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// cachePaths are the routes of vLLM and of SGLang that empty the prefix cache.
var cachePaths = []string{"/reset_prefix_cache", "/flush_cache"}

// EmptyCache empties the server's prefix cache.
func (s *Server) EmptyCache(ctx context.Context) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	var first error
	for _, path := range cachePaths {
		resp, err := s.ask(ctx, http.MethodPost, path, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerLimit))
			return errors.Join(err, resp.Body.Close())
		}
		if first == nil {
			first = errors.New(s.plain(err.Error()))
		}
	}
	return first
}

// Base is the address that clients add their paths to, with a password if it has one.
func (s *Server) Base() string { return s.base }

// Owner is who owns the model, as the list of models says; "" if it does not.
func (s *Server) Owner() string { return s.owner }
