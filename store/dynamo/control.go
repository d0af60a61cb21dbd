package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/store"
)

// Capabilities implements store.Driver.
func (d *Driver) Capabilities() store.Capabilities {
	return store.Capabilities{ControlsOmitted: d.controlsOmitted, PayloadsExpire: true, EndedExpire: true, KeyLoads: d.batcher.keyLoads}
}

// Controls implements store.Driver.
func (d *Driver) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if name == "" {
		found, _, err := d.controlsOmitted(ctx, kind)
		return found, err
	}
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := checkControlKey(kind, name); err != nil {
		return nil, err
	}
	key := item{attrKind: textValue(kind), attrName: textValue(name)}
	row, err := d.client.getItem(ctx, d.client.tables.control, key, attrRow)
	if err != nil || row == nil {
		return nil, err
	}
	c, err := store.DecodeControl(kind, name, encodedOf(row))
	if err != nil {
		d.client.skipUnreadable(*d.client.tables.control, key, err)
		return nil, err
	}
	return []store.Control{c}, nil
}

// controlsOmitted implements store.Capabilities.ControlsOmitted.
func (d *Driver) controlsOmitted(ctx context.Context, kind string) (found []store.Control, omitted map[string]error, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	if err := checkControlKey(kind, ""); err != nil {
		return nil, nil, err
	}
	in := &dynamodb.QueryInput{
		TableName: d.client.tables.control, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String(attrKind + "=:c"),
		ExpressionAttributeValues: item{":c": textValue(kind)},
	}
	err = d.client.query(ctx, in, func(row item) bool {
		name := textOf(row, attrName)
		c, err := store.DecodeControl(kind, name, encodedOf(row))
		if err == nil {
			found = append(found, c)
			return true
		}
		d.client.skipUnreadable(*d.client.tables.control, row, err)
		if omitted == nil {
			omitted = map[string]error{}
		}
		omitted[name] = err
		return true
	})
	return found, omitted, err
}
