package task

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// BlobBytesMax bounds a payload that is kept as a blob, in bytes.
const BlobBytesMax = 100 << 20

// blobChunkDigits bounds the digits of a key in one part of a name: file systems take 255 bytes.
const blobChunkDigits = 200

// BlobKeyPrefix begins the key that a client gives a task which has none of its own and needs a blob.
const BlobKeyPrefix = "blob-"

// ErrBadBlob is the error for a blob that no client of this version makes.
var ErrBadBlob = errors.New("invalid blob")

// Blob says which payload a task has that is too large for a row. Clients keep the payload in a directory or
// a bucket of their own, under BlobName. Nobody may write to a Blob.
type Blob struct {
	ID     [16]byte `row:"1,always"` // random: no two blobs have the same name, whatever becomes of their tasks
	Bytes  int64    `row:"2"`        // 1 to BlobBytesMax
	SHA256 [32]byte `row:"3,always"` // of its contents
}

// followUpMark begins the id of a blob of a task that is to follow another. Until that is there no row of its
// own names the blob, so that whoever deletes blobs has to look for it in what follows others.
const followUpMark = "next"

// MarkFollowUp makes a random id that of a blob of a follow-up.
func MarkFollowUp(id *[16]byte) { copy(id[:], followUpMark) }

// OfFollowUp reports whether a blob was made for a follow-up.
func OfFollowUp(id [16]byte) bool { return string(id[:len(followUpMark)]) == followUpMark }

// Check refuses, with ErrBadBlob, a blob without an id or of a size that is not allowed.
func (b *Blob) Check() error {
	switch {
	case b.ID == [16]byte{}:
		return fmt.Errorf("%w: its id is zero", ErrBadBlob)
	case b.Bytes < 1 || b.Bytes > BlobBytesMax:
		return fmt.Errorf("%w: %d bytes: want 1 to %d", ErrBadBlob, b.Bytes, BlobBytesMax)
	}
	return nil
}

// BlobOwner says whose payload a blob is.
type BlobOwner struct {
	Lambda string
	Key    string // the idempotency key of the task
	Task   ID     // of a task without a key
}

// BlobName returns the name of a blob: LAMBDA/kKEY/BLOB, or LAMBDA/tTASK/BLOB for a task without a key, with
// key, task and blob in hexadecimal digits. A long key has several parts. Because the name has the task, no
// row can make a client read the payload of another task.
func BlobName(o BlobOwner, blob [16]byte) string {
	var name strings.Builder
	name.WriteString(o.Lambda)
	if o.Key == "" {
		name.WriteString("/t" + hex.EncodeToString(o.Task[:]))
	} else {
		name.WriteString("/k")
		digits := hex.EncodeToString([]byte(o.Key))
		for len(digits) > blobChunkDigits {
			name.WriteString(digits[:blobChunkDigits] + "/")
			digits = digits[blobChunkDigits:]
		}
		name.WriteString(digits)
	}
	return name.String() + "/" + hex.EncodeToString(blob[:])
}

// ParseBlobName is the inverse of BlobName; ok is false for any other name.
func ParseBlobName(name string) (o BlobOwner, blob [16]byte, ok bool) {
	lambda, rest, _ := strings.Cut(name, "/")
	at := strings.LastIndexByte(rest, '/')
	if at < 1 || hexInto(blob[:], rest[at+1:]) != nil {
		return BlobOwner{}, blob, false
	}
	o.Lambda = lambda
	switch digits := strings.ReplaceAll(rest[1:at], "/", ""); rest[0] {
	case 'k':
		key, err := hex.DecodeString(digits)
		o.Key = string(key)
		ok = err == nil && o.Key != ""
	case 't':
		ok = hexInto(o.Task[:], digits) == nil
	}
	return o, blob, ok && BlobName(o, blob) == name
}

func hexInto(dst []byte, digits string) error {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return fmt.Errorf("%w: %d digits", ErrBadBlob, len(digits))
	}
	_, err := hex.Decode(dst, []byte(digits))
	return err
}
