// Package blobplace opens the place for blobs that a setting names.
package blobplace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/blobs/s3blobs"
)

// Place keeps blobs.
type Place interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string, bytesMax int64) ([]byte, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, each func(blobs.Entry) error) error
	Close() error
}

// Open opens a directory, which it makes if it does not exist, or s3://BUCKET/PREFIX.
func Open(ctx context.Context, location string) (Place, error) {
	switch scheme, _, isURL := strings.Cut(location, "://"); {
	case location == "":
		return nil, errors.New("want a directory or s3://BUCKET/PREFIX")
	case !isURL:
		return blobs.OpenDir(location)
	case scheme+"://" != s3blobs.Scheme:
		return nil, fmt.Errorf("%q: want a directory or s3://BUCKET/PREFIX", location)
	}
	return s3blobs.Open(ctx, location)
}
