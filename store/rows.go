package store

import "context"

// ControlRows are the control rows of a store, for those who keep something in them.
type ControlRows interface {
	Control(ctx context.Context, kind, name string) (Control, error)
	Controls(ctx context.Context, kind string) ([]Control, error)
	PutControl(ctx context.Context, c Control) error
	DeleteControl(ctx context.Context, c Control) error
}
