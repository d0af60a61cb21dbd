// Package s3blobs keeps large payloads in a bucket of S3, or of a service with its API: see sdk.WithBlobs. It
// is apart from package blobs so that programs without a bucket do not link the AWS SDK.
package s3blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/kinesin-io/kinesin/sdk/blobs"
)

// Scheme begins the URLs that Open takes.
const Scheme = "s3://"

// Store keeps blobs as objects of a bucket. It is safe for concurrent use.
type Store struct {
	client         *s3.Client
	bucket, prefix string
}

// New returns a store of the objects whose keys begin with a prefix, which may be empty. The caller of a
// client needs s3:PutObject and s3:GetObject on them; a server that deletes also needs s3:DeleteObject, and
// s3:ListBucket on the bucket, without which a blob that is missing looks forbidden.
func New(client *s3.Client, bucket, prefix string) *Store {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &Store{client, bucket, prefix}
}

// Open returns the store of a URL, s3://BUCKET or s3://BUCKET/PREFIX. Region, credentials and endpoint come
// from where the AWS SDK looks for them, such as AWS_REGION and AWS_ENDPOINT_URL_S3. It makes no request.
func Open(ctx context.Context, location string) (*Store, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme+"://" != Scheme || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q: want %sBUCKET or %sBUCKET/PREFIX", location, Scheme, Scheme)
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the AWS settings: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS region is set: name that of the bucket in AWS_REGION")
	}
	// Only Amazon puts the bucket into the name of a host that resolves everywhere.
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil })
	return New(client, u.Host, u.Path), nil
}

// Put keeps a blob, and replaces one with the same name. When it returns nil the blob is durable.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: aws.String(s.prefix + name), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
	})
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return nil
}

// Get reads a blob. It returns blobs.ErrNotFound, or blobs.ErrTooLarge for one of more than bytesMax bytes.
func (s *Store) Get(ctx context.Context, name string, bytesMax int64) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + name)}, quiet)
	if missing, is := errors.AsType[*types.NoSuchKey](err); is {
		return nil, fmt.Errorf("%w: %s in bucket %s: %w", blobs.ErrNotFound, s.prefix+name, s.bucket, missing)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	defer out.Body.Close()
	size := aws.ToInt64(out.ContentLength)
	if size > bytesMax {
		return nil, fmt.Errorf("%w: %s has %d bytes, want at most %d", blobs.ErrTooLarge, name, size, bytesMax)
	}
	data := make([]byte, max(size, 0))
	if _, err := io.ReadFull(out.Body, data); err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	return data, nil
}

// quiet keeps the SDK from writing to stderr that a service has no checksum for an object: the row of its
// task has one.
func quiet(o *s3.Options) { o.DisableLogOutputChecksumValidationSkipped = true }

// Delete deletes a blob. One that is not there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + name)})
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	return nil
}

// List calls each with every blob, in the order of names, until it returns an error.
func (s *Store) List(ctx context.Context, each func(blobs.Entry) error) error {
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &s.prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list the blobs in bucket %s: %w", s.bucket, err)
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			if err := each(blobs.Entry{Name: name, Bytes: aws.ToInt64(o.Size), Put: aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close does nothing.
func (*Store) Close() error { return nil }
