package storetest

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks implements store.Driver.
func (f *Faulty) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := f.readFault(); err != nil {
		return nil, err
	}
	return f.Driver.Tasks(ctx, ids)
}

// Wakeups implements store.Driver.
func (f *Faulty) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	if err := f.readFault(); err != nil {
		return nil, err
	}
	return f.Driver.Wakeups(ctx, keys)
}

// Payload implements store.Driver.
func (f *Faulty) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := f.readFault(); err != nil {
		return nil, err
	}
	return f.Driver.Payload(ctx, id)
}

// Controls implements store.Driver.
func (f *Faulty) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := f.readFault(); err != nil {
		return nil, err
	}
	return f.Driver.Controls(ctx, kind, name)
}
