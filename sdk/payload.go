package sdk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/task"
)

// PayloadCodec changes payloads on their way between programs, for encryption or compression: a Client
// encodes what it schedules, and decodes what its workers run and what it reads. Results of handlers go the
// same way. Servers, stores, queues and backups have the encoded payload only. It is used from many
// goroutines, and must not change its arguments.
//
// Encode has to return the same bytes for the same task with a key (PayloadContext.Key), or a repeated call
// fails with ErrKeyConflict.
//
// An error of Decode ends the attempt before the handler is called: it is tried again after a backoff, or
// not if the error is Fatal. Its text is stored with the attempt, so it must not quote the payload.
type PayloadCodec interface {
	Encode(ctx context.Context, p PayloadContext, plain []byte) ([]byte, error)
	Decode(ctx context.Context, p PayloadContext, encoded []byte) ([]byte, error)
}

// PayloadContext says whose payload it is. It is the same when the payload is encoded and when it is decoded.
type PayloadContext struct {
	Lambda string
	Key    string   // the task's idempotency key
	Task   [16]byte // the UUID in its id; zero for the payload of one that has a key, or follows another: its id is made by the server
	Result bool     // it is the task's result, which the codec encodes too, and not its payload
}

// AssociatedData returns bytes that differ for each task, and for its payload and its result, to bind a
// payload to its task.
func (p PayloadContext) AssociatedData() []byte {
	b := binary.AppendUvarint(nil, uint64(len(p.Lambda)))
	b = append(b, p.Lambda...)
	if p.Result {
		b = append(b, 'r')
	}
	if p.Key != "" {
		return append(append(b, 'k'), p.Key...)
	}
	return append(append(b, 't'), p.Task[:]...)
}

// WithPayloadCodec encodes and decodes the payloads of all tasks of this client and of its workers. All
// programs that schedule, run or read the same tasks need the same codec.
func WithPayloadCodec(codec PayloadCodec) ClientOption {
	return func(c *clientConfig) {
		c.Encode, c.Decode, c.EncodeResult, c.DecodeResult = nil, nil, nil, nil
		if codec == nil {
			return
		}
		ofResult := func(lambda, key string, id [16]byte) PayloadContext {
			p := payloadContext(lambda, key, id)
			p.Result = true
			return p
		}
		c.EncodeResult = func(ctx context.Context, lambda, key string, id [16]byte, result []byte) ([]byte, error) {
			return codec.Encode(ctx, ofResult(lambda, key, id), result)
		}
		c.DecodeResult = func(ctx context.Context, lambda, key string, id [16]byte, result []byte) ([]byte, error) {
			return codec.Decode(ctx, ofResult(lambda, key, id), result)
		}
		c.Encode = func(ctx context.Context, lambda, key string, id [16]byte, payload []byte) ([]byte, error) {
			return codec.Encode(ctx, payloadContext(lambda, key, id), payload)
		}
		c.Decode = func(ctx context.Context, lambda, key string, id [16]byte, payload []byte) ([]byte, error) {
			return codec.Decode(ctx, payloadContext(lambda, key, id), payload)
		}
	}
}

func payloadContext(lambda, key string, id [16]byte) PayloadContext {
	if key != "" {
		return PayloadContext{Lambda: lambda, Key: key}
	}
	return PayloadContext{Lambda: lambda, Task: id}
}

// encode returns the items with encoded payloads. It sets the error of the result of an item whose payload
// cannot be encoded.
func (c *Client) encode(ctx context.Context, items []Item, ids [][]byte, results []Result) []Item {
	if c.cfg.Encode == nil {
		return items
	}
	encoded := make([]Item, len(items))
	for i := range items {
		encoded[i] = items[i]
		bound := task.ID(ids[i]).BoundTo(items[i].Lambda, items[i].Collection) // so that the id of the task is known
		copy(ids[i], bound[:])
		payload, err := c.cfg.Encode(ctx, items[i].Lambda, items[i].Key, bound.OwnedBy(""), items[i].Payload)
		if err != nil {
			results[i].Err = fmt.Errorf("encode the payload of a %s task: %w", items[i].Lambda, err)
		}
		encoded[i].Payload = payload
		if encoded[i], err = c.encodeWhatFollows(ctx, encoded[i]); err != nil {
			results[i].Err = err
		}
	}
	return encoded
}

// encodeAgain returns a payload for a task that is there, or the blob that it was put into. It reads the
// task, whose lambda and key the payload is encoded for.
func (c *Client) encodeAgain(ctx context.Context, id ID, payload []byte) ([]byte, *kinesinv1.Blob, error) {
	if c.cfg.Encode == nil && !c.isLarge(payload) {
		return append([]byte{}, payload...), nil, nil
	}
	t, err := c.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	known, err := task.PeekID(string(t.ID))
	if err == nil && t.followsAnother() {
		known = task.ID{}
	}
	if err == nil && c.cfg.Encode != nil {
		payload, err = c.cfg.Encode(ctx, t.Lambda, t.keyOfPayload(), known, payload)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encode the payload of task %s: %w", id, err)
	}
	if !c.isLarge(payload) {
		return append([]byte{}, payload...), nil, nil
	}
	blob, err := c.putNew(ctx, task.BlobOwner{Lambda: t.Lambda, Key: t.Key, Task: known}, payload)
	return nil, api.WireBlob(blob), err
}

// explainSizes adds to refusals of large payloads what the codec made of them, and what takes larger ones.
func explainSizes(items, encoded []Item, results []Result, hasBlobs bool) {
	for i := range results {
		if !hasBlobs && errors.Is(results[i].Err, ErrTooLarge) {
			results[i].Err = fmt.Errorf("%w; larger ones need a place for blobs: sdk.WithBlobs, or --blobs", results[i].Err)
		}
		if before, after := len(items[i].Payload), len(encoded[i].Payload); before != after && errors.Is(results[i].Err, ErrTooLarge) {
			results[i].Err = fmt.Errorf("%w (%d bytes, of which the payload codec made %d)", results[i].Err, before, after)
		}
	}
}

// decodeWork returns the payload of an attempt for its handler.
func (c *Client) decodeWork(ctx context.Context, w *kinesinv1.Claimed) ([]byte, error) {
	payload, err := c.fetched(ctx, task.BlobOwner{Lambda: w.Lambda, Key: w.Key, Task: task.ID(w.Task)}, w.Blob, w.Payload)
	if c.cfg.Decode == nil || err != nil {
		return payload, err
	}
	id, key := task.ID(w.Task), w.Key
	if w.Parent != nil || w.Group != nil {
		id, key = task.ID{}, keyOfFollowUp(key) // it was encoded before the task had an id
	}
	if w.Group != nil {
		key = ""
	}
	plain, err := c.cfg.Decode(ctx, w.Lambda, key, id, payload)
	if err != nil {
		return nil, fmt.Errorf("decode the payload: %w", err)
	}
	return plain, nil
}

// decodeRead returns a payload that was read. There is none of a task in the inbound queue, or if nobody
// asked.
func (c *Client) decodeRead(ctx context.Context, lambda, key string, id ID, payload []byte) ([]byte, error) {
	return decoded(ctx, c.cfg.Decode, "payload", lambda, key, id, payload)
}

// decodeResult returns a result that was read.
func (c *Client) decodeResult(ctx context.Context, lambda, key string, id ID, result []byte) ([]byte, error) {
	return decoded(ctx, c.cfg.DecodeResult, "result", lambda, key, id, result)
}

func decoded(ctx context.Context, decode sdkconfig.PayloadFunc, what, lambda, key string, id ID, encoded []byte) ([]byte, error) {
	if decode == nil || len(encoded) == 0 {
		return encoded, nil
	}
	known, err := task.PeekID(string(id))
	if err != nil {
		return nil, fmt.Errorf("decode the %s of task %s: %w", what, id, err)
	}
	plain, err := decode(ctx, lambda, key, known, encoded)
	if err != nil {
		return nil, fmt.Errorf("decode the %s of task %s: %w", what, id, err)
	}
	return plain, nil
}

// encodeResult returns the result of an attempt as it is stored.
func (c *Client) encodeResult(ctx context.Context, w *kinesinv1.Claimed, result []byte) ([]byte, error) {
	if c.cfg.EncodeResult == nil || len(result) == 0 {
		return result, nil
	}
	encoded, err := c.cfg.EncodeResult(ctx, w.Lambda, w.Key, task.ID(w.Task), result)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return encoded, nil
}
