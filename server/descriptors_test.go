package server

import (
	"errors"
	"testing"
)

func TestSharesOfFiles(t *testing.T) {
	t.Parallel()
	embedded, remote := Config{Store: StorePebble, Queue: QueueMemory}, Config{Store: StoreDynamoDB, Queue: QueueSQS}
	for _, c := range []struct {
		name    string
		config  Config
		allowed uint64
		want    descriptors
		err     error
	}{
		{"too few", embedded, 159, descriptors{80, 31}, ErrDescriptors},
		{"just enough", embedded, 160, descriptors{80, 32}, nil},
		{"256", embedded, 256, descriptors{80, 128}, nil},
		{"1024", embedded, 1024, descriptors{256, 720}, nil},
		{"plenty", embedded, 20_000, descriptors{500, 19_452}, nil},
		{"no limit", embedded, 1 << 63, descriptors{500, 1 << 16}, nil},
		{"too few on AWS", remote, 159, descriptors{0, 32}, nil},
		{"none on AWS", remote, 100, descriptors{0, 2}, ErrDescriptors},
		{"1024 on AWS", remote, 1024, descriptors{0, 464}, nil},
	} {
		got, err := shareFiles(c.allowed, &c.config)
		if got != c.want || !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}
