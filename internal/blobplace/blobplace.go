// Package blobplace opens the place for blobs that a setting names.
package blobplace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/blobs/s3blobs"
)

// ErrExists means that there is a blob with a name that was to be new.
var ErrExists = errors.New("blob exists")

// Place keeps blobs.
type Place interface {
	Put(ctx context.Context, name string, data []byte) error
	// PutNew is Put of a name that nothing has yet; else it returns ErrExists. Of several callers one succeeds.
	PutNew(ctx context.Context, name string, data []byte) error
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
		d, err := blobs.OpenDir(location)
		if err != nil {
			return nil, err // no pointer in an interface
		}
		return &dir{d, location}, nil
	case scheme+"://" != s3blobs.Scheme:
		return nil, fmt.Errorf("%q: want a directory or s3://BUCKET/PREFIX", location)
	}
	return openBucket(ctx, location)
}

// dir is a directory.
type dir struct {
	*blobs.Dir

	path string
}

// PutNew implements Place: the file gets its name by a link, which fails if there is one.
func (d *dir) PutNew(ctx context.Context, name string, data []byte) error {
	temp := blobs.TempPrefix + rand.Text()
	if err := d.Put(ctx, temp, data); err != nil {
		return err
	}
	to := filepath.Join(d.path, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = os.Link(filepath.Join(d.path, filepath.FromSlash(temp)), to)
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %s", ErrExists, to)
	}
	return errors.Join(err, d.Delete(ctx, temp))
}

// bucket is a prefix in a bucket.
type bucket struct {
	*s3blobs.Store

	client *s3.Client
	at     *url.URL
}

func openBucket(ctx context.Context, location string) (Place, error) {
	if _, err := s3blobs.Open(ctx, location); err != nil { // says what is wrong with the location and the settings
		return nil, err
	}
	at, err := url.Parse(location)
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the AWS settings: %w", err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil })
	return &bucket{s3blobs.New(client, at.Host, at.Path), client, at}, nil
}

// PutNew implements Place by a condition on the request.
func (b *bucket) PutNew(ctx context.Context, name string, data []byte) error {
	key, absent := strings.TrimPrefix(strings.Trim(b.at.Path, "/")+"/"+name, "/"), "*"
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.at.Host, Key: &key, Body: bytes.NewReader(data), IfNoneMatch: &absent})
	if failed, is := errors.AsType[smithy.APIError](err); is && (failed.ErrorCode() == "PreconditionFailed" || failed.ErrorCode() == "ConditionalRequestConflict") {
		return fmt.Errorf("%w: %s in bucket %s", ErrExists, key, b.at.Host)
	}
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return nil
}
