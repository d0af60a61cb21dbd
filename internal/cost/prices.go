package cost

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// DefaultPrices is the price list as a file, to be copied and edited.
//
//go:embed prices.yaml
var DefaultPrices []byte

// ErrPrices is returned for an invalid price list; the text says why.
var ErrPrices = errors.New("price list refused")

// Prices is a price list with its date and source. All prices are in Currency.
type Prices struct {
	Currency string `yaml:"currency" json:"currency"`
	Region   string `yaml:"region" json:"region"`
	Date     string `yaml:"date" json:"date"`
	Source   string `yaml:"source" json:"source"`

	DynamoDB    DynamoDBPrices    `yaml:"dynamodb" json:"dynamodb"`
	SQS         SQSPrices         `yaml:"sqs" json:"sqs"`
	EventBridge EventBridgePrices `yaml:"eventbridge_scheduler" json:"eventbridge_scheduler"`
}

// DynamoDBPrices are the prices of on-demand units, of provisioned units per hour, and of storage per month.
type DynamoDBPrices struct {
	WritePerMillion   float64 `yaml:"write_per_million" json:"write_per_million"`
	ReadPerMillion    float64 `yaml:"read_per_million" json:"read_per_million"`
	WriteCapacityHour float64 `yaml:"write_capacity_hour" json:"write_capacity_hour"`
	ReadCapacityHour  float64 `yaml:"read_capacity_hour" json:"read_capacity_hour"`
	StorageGBMonth    float64 `yaml:"storage_gb_month" json:"storage_gb_month"`
}

// SQSPrices are the prices of requests to standard queues.
type SQSPrices struct {
	RequestPerMillion float64 `yaml:"request_per_million" json:"request_per_million"`
	FreeRequestsMonth float64 `yaml:"free_requests_month" json:"free_requests_month"`
}

// EventBridgePrices are the prices of EventBridge Scheduler, for comparison.
type EventBridgePrices struct {
	InvocationPerMillion float64 `yaml:"invocation_per_million" json:"invocation_per_million"`
	FreeInvocationsMonth float64 `yaml:"free_invocations_month" json:"free_invocations_month"`
}

// ReadPrices reads a price list in the form of DefaultPrices. Every price must be set and none negative. Its
// errors are ErrPrices, or those of r.
func ReadPrices(r io.Reader) (Prices, error) {
	const fileBytesMax = 64 << 10
	text, err := io.ReadAll(io.LimitReader(r, fileBytesMax))
	if err != nil {
		return Prices{}, fmt.Errorf("read the price list: %w", err)
	}
	var p Prices
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil {
		return Prices{}, fmt.Errorf("%w: %w", ErrPrices, err)
	}
	return p, p.check()
}

func (p *Prices) check() error {
	var errs []error
	for _, text := range []struct{ name, value string }{{"currency", p.Currency}, {"date", p.Date}, {"source", p.Source}} {
		if text.value == "" {
			errs = append(errs, fmt.Errorf("%w: %s is missing", ErrPrices, text.name))
		}
	}
	for _, price := range []struct {
		name  string
		value float64
	}{
		{"dynamodb.write_per_million", p.DynamoDB.WritePerMillion},
		{"dynamodb.read_per_million", p.DynamoDB.ReadPerMillion},
		{"dynamodb.write_capacity_hour", p.DynamoDB.WriteCapacityHour},
		{"dynamodb.read_capacity_hour", p.DynamoDB.ReadCapacityHour},
		{"sqs.request_per_million", p.SQS.RequestPerMillion},
		{"eventbridge_scheduler.invocation_per_million", p.EventBridge.InvocationPerMillion},
	} {
		if !(price.value > 0) {
			errs = append(errs, fmt.Errorf("%w: %s is %v: want a price above 0", ErrPrices, price.name, price.value))
		}
	}
	for _, amount := range []struct {
		name  string
		value float64
	}{
		{"dynamodb.storage_gb_month", p.DynamoDB.StorageGBMonth},
		{"sqs.free_requests_month", p.SQS.FreeRequestsMonth},
		{"eventbridge_scheduler.free_invocations_month", p.EventBridge.FreeInvocationsMonth},
	} {
		if !(amount.value >= 0) {
			errs = append(errs, fmt.Errorf("%w: %s is %v: want 0 or more", ErrPrices, amount.name, amount.value))
		}
	}
	return errors.Join(errs...)
}
