package sdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// blobLimitDefault is the largest payload that a server takes by default, in bytes.
	blobLimitDefault = 256 << 10
	// blobPutsMax is how many blobs one call uploads at a time.
	blobPutsMax = 4
	// blobFreshMax is the age up to which a blob is surely there although no task named it before.
	blobFreshMax = time.Hour
	// followUpInlineMax is the size from which the payload of a task that is to follow others goes into a
	// blob if those of all of them are too large together.
	followUpInlineMax = 32 << 10
)

// BlobStore keeps payloads that are too large for servers: blobs.OpenDir and s3blobs.Open return one. It is
// used from many goroutines.
//
// Put returns nil when the blob is durable and complete for all readers, and replaces one with the same name.
// Get refuses one of more than bytesMax bytes.
type BlobStore interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string, bytesMax int64) ([]byte, error)
}

// WithBlobs keeps payloads of more than limit bytes, after the codec, in a store; zero means 256 KiB. They
// are uploaded before a task is scheduled, and downloaded before its handler, by this client: no server has
// them, and they may have up to 100 MiB. The task's row has their digest, and a payload that does not match
// it is refused. All programs that schedule, run or read the same tasks need the same store.
//
// A task without a key gets one, "blob-" and a UUID, and Key of its handler has it. Tasks of ModeDeliver
// cannot have such payloads. docs/reference/sdk.md describes how the blobs are deleted.
func WithBlobs(store BlobStore, limit int) ClientOption {
	return func(c *clientConfig) { c.Blobs, c.BlobLimit = store, cmp.Or(max(limit, 0), blobLimitDefault) }
}

func (c *Client) isLarge(payload []byte) bool {
	return c.cfg.Blobs != nil && len(payload) > c.cfg.BlobLimit
}

// upload is a blob of an item.
type upload struct {
	at      int // of the item
	name    string
	payload []byte
}

// prepare returns items as they are sent, with encoded payloads, and the blobs of the large ones, which it
// has put. It sets the error of the result of an item where that fails.
func (c *Client) prepare(ctx context.Context, items []Item, ids [][]byte, results []Result) (encoded []Item, large []upload) {
	if encoded = c.encode(ctx, items, ids, results); c.cfg.Blobs == nil {
		return encoded, nil
	}
	encoded, large = c.offload(ctx, items, slices.Clone(encoded), ids, results)
	for i := range encoded {
		result := &results[i] //nolint:gosec // there is one for each item
		if result.Err != nil {
			continue
		}
		var more []upload
		encoded[i], more, result.Err = c.offloadWhatFollows(encoded[i], i)
		large = append(large, more...)
	}
	c.putAll(ctx, large, results)
	return encoded, large
}

// offload makes blobs of the large ones of the encoded payloads, and returns the items with these instead. It
// sets the error of the result of an item where that fails.
func (c *Client) offload(ctx context.Context, items, encoded []Item, ids [][]byte, results []Result) ([]Item, []upload) {
	var large []upload
	for i := range encoded {
		if results[i].Err == nil && c.isLarge(encoded[i].Payload) {
			large = append(large, upload{at: i})
		}
	}
	if len(large) == 0 {
		return encoded, nil
	}
	for n := range large {
		i := large[n].at
		if items[i].Key == "" {
			keyed := items[i]
			keyed.Key = task.BlobKeyPrefix + task.ID(ids[i]).String()
			encoded[i] = c.encode(ctx, []Item{keyed}, ids[i:i+1], results[i:i+1])[0]
		}
		large[n].take(&encoded[i], &results[i], false)
	}
	return encoded, large
}

// offloadWhatFollows makes blobs of large payloads of what follows an item, which is the one at a place of
// its call, and returns the item with these instead.
func (c *Client) offloadWhatFollows(item Item, at int) (Item, []upload, error) {
	inlineMax := c.cfg.BlobLimit
	if sizeOf(&item)-len(item.Payload) > blobLimitDefault {
		inlineMax = min(inlineMax, followUpInlineMax)
	}
	var large []upload
	for _, list := range []*[]Item{&item.Then, &item.Else, &item.Finally} {
		more, err := c.offloadFollowUps(list, inlineMax, at)
		if err != nil {
			return item, nil, err
		}
		large = append(large, more...)
	}
	return item, large, nil
}

// offloadFollowUps makes blobs of the payloads of follow-ups that have more than so many bytes, with those of
// what follows them. Such a follow-up has a key, as any task with a blob.
func (c *Client) offloadFollowUps(items *[]Item, inlineMax, at int) (large []upload, err error) {
	if c.cfg.Blobs == nil || len(*items) == 0 {
		return nil, nil
	}
	*items = slices.Clone(*items)
	for i := range *items {
		one := &(*items)[i]
		if len(one.Payload) > inlineMax {
			if one.Key == "" {
				one.Key = task.BlobKeyPrefix + task.NewID(c.cfg.Clock.Now(), c.cfg.Clock.Uint64(), c.cfg.Clock.Uint64()).String()
			}
			u, taken := upload{at: at}, Result{}
			if u.take(one, &taken, true); taken.Err != nil {
				return nil, taken.Err
			}
			large = append(large, u)
		}
		for _, list := range []*[]Item{&one.Then, &one.Else, &one.Finally} {
			more, err := c.offloadFollowUps(list, inlineMax, at)
			if err != nil {
				return nil, err
			}
			large = append(large, more...)
		}
	}
	return large, nil
}

// putFollowUps puts the blobs of follow-ups.
func (c *Client) putFollowUps(ctx context.Context, large []upload) error {
	taken := make([]Result, 1)
	c.putAll(ctx, large, taken)
	return taken[0].Err
}

// take makes a blob of the payload of an item.
func (u *upload) take(item *Item, result *Result, followsAnother bool) {
	if result.Err != nil {
		return
	}
	if result.Err = checkBlobSize(item.Payload); result.Err == nil {
		if item.blob = newBlob(item.Payload); followsAnother {
			task.MarkFollowUp(&item.blob.ID)
		}
		u.name, u.payload = task.BlobName(task.BlobOwner{Lambda: item.Lambda, Key: item.Key}, item.blob.ID), item.Payload
		item.Payload = nil
		result.Err = task.CheckName("lambda", item.Lambda) // it is a part of the name
	}
}

func checkBlobSize(payload []byte) error {
	if n := len(payload); n > task.BlobBytesMax {
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes: at most %d are allowed in a blob", n, task.BlobBytesMax)
	}
	return nil
}

func newBlob(payload []byte) *task.Blob {
	b := &task.Blob{Bytes: int64(len(payload)), SHA256: sha256.Sum256(payload)}
	_, _ = rand.Read(b.ID[:]) // it never fails
	return b
}

// putAll puts the blobs of items that have no error.
func (c *Client) putAll(ctx context.Context, large []upload, results []Result) {
	var g errgroup.Group
	g.SetLimit(blobPutsMax)
	for _, u := range large {
		if results[u.at].Err != nil {
			continue
		}
		g.Go(func() error {
			if err := c.cfg.Blobs.Put(ctx, u.name, u.payload); err != nil {
				results[u.at].Err = fmt.Errorf("keep the payload: %w", err)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in the results
}

// putLateAgain puts the blobs of scheduled tasks again if that took so long that a server may have deleted
// them, because no row named them.
func (c *Client) putLateAgain(ctx context.Context, begun task.Instant, large []upload, results []Result) {
	if len(large) > 0 && c.cfg.Clock.Now() > begun.Add(blobFreshMax) {
		c.putAll(ctx, large, results)
	}
}

// putNew puts a payload into a new blob of a task.
func (c *Client) putNew(ctx context.Context, owner task.BlobOwner, payload []byte) (*task.Blob, error) {
	if err := checkBlobSize(payload); err != nil {
		return nil, err
	}
	blob := newBlob(payload)
	if err := c.cfg.Blobs.Put(ctx, task.BlobName(owner, blob.ID), payload); err != nil {
		return nil, fmt.Errorf("keep the payload: %w", err)
	}
	return blob, nil
}

// fetched returns the payload of a task as it was encoded: that of its blob, if it has one.
func (c *Client) fetched(ctx context.Context, owner task.BlobOwner, wire *kinesinv1.Blob, payload []byte) ([]byte, error) {
	if wire == nil {
		return payload, nil
	}
	blob, err := api.BlobOf(wire)
	if err != nil {
		return nil, err
	}
	if c.cfg.Blobs == nil {
		return nil, fmt.Errorf("%w: the payload is a blob of %d bytes, and this program has no place for blobs: sdk.WithBlobs, or --blobs", ErrInvalid, blob.Bytes)
	}
	data, err := c.cfg.Blobs.Get(ctx, task.BlobName(owner, blob.ID), blob.Bytes)
	if err != nil {
		return nil, fmt.Errorf("get the payload: %w", err)
	}
	if int64(len(data)) != blob.Bytes || sha256.Sum256(data) != blob.SHA256 {
		return nil, fmt.Errorf("the payload was altered: the %d bytes of its blob do not have the digest that the task names, of %d bytes", len(data), blob.Bytes)
	}
	return data, nil
}

// readPayload returns the payload of a task that was read, which may be in a blob.
func (c *Client) readPayload(ctx context.Context, t *TaskInfo, blob *kinesinv1.Blob) ([]byte, error) {
	payload := t.Payload
	if blob != nil {
		id, err := task.PeekID(string(t.ID))
		if err == nil {
			payload, err = c.fetched(ctx, task.BlobOwner{Lambda: t.Lambda, Key: t.Key, Task: id}, blob, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.followsAnother() && c.cfg.Decode != nil && len(payload) > 0 {
		plain, err := c.cfg.Decode(ctx, t.Lambda, t.keyOfPayload(), [16]byte{}, payload)
		if err != nil {
			return nil, fmt.Errorf("decode the payload of task %s: %w", t.ID, err)
		}
		return plain, nil
	}
	return c.decodeRead(ctx, t.Lambda, t.Key, t.ID, payload)
}
