package lambdas

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/internal/catalog"
)

// checkDeclared refuses what a registration declares beside its lambda; l is nil if that is not there yet.
func (svc *Service) checkDeclared(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	var errs []error
	for _, d := range svc.Declared {
		errs = append(errs, d.Check(ctx, l, r))
	}
	return errors.Join(errs...)
}

// makeDeclared makes what the registration of a lambda declares beside it.
func (svc *Service) makeDeclared(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	if l.IsMade(r) {
		return nil
	}
	l, err := svc.Catalog.Claim(ctx, l, r)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range svc.Declared {
		errs = append(errs, d.Make(ctx, l, r))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err = svc.Catalog.Settle(ctx, l, r)
	return err
}

// removeDeclared takes away what the registration of a lambda declared. An occurrence that waits would keep
// the lambda.
func (svc *Service) removeDeclared(ctx context.Context, l *catalog.Entry) (*catalog.Entry, error) {
	if l.Made == "" {
		return l, nil
	}
	l, err := svc.Catalog.Undo(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, d := range svc.Declared {
		if err := d.Remove(ctx, l); err != nil {
			return nil, err
		}
	}
	return svc.Catalog.Undone(ctx, l)
}
