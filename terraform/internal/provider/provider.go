package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Where the provider is told what AWS is.
const (
	envAccount  = "KINESIN_TEST_ACCOUNT"
	envDynamoDB = "AWS_ENDPOINT_URL_DYNAMODB"
	envSQS      = "AWS_ENDPOINT_URL_SQS"
)

// accountID is that of the emulators.
const accountID = "000000000000"

// standIn is the provider.
type standIn struct{}

// session is what resources work with.
type session struct {
	region      string
	defaultTags map[string]any
	account     account
	dynamodb    *dynamodb.Client
	sqs         *sqs.Client
}

func (*standIn) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "aws"
}

func (*standIn) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Attributes: map[string]schema.Attribute{"region": schema.StringAttribute{Optional: true}},
		Blocks: map[string]schema.Block{
			"default_tags": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"tags": schema.MapAttribute{Optional: true, ElementType: types.StringType},
			}}},
		},
	}
}

func (*standIn) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	given, err := decode(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Provider configuration", err.Error())
		return
	}
	s, err := newSession(ctx, given)
	if err != nil {
		resp.Diagnostics.AddError("The test-only provider cannot start", err.Error())
		return
	}
	resp.ResourceData, resp.DataSourceData = s, s
}

func newSession(ctx context.Context, given values) (*session, error) {
	for _, name := range []string{envAccount, envDynamoDB, envSQS} {
		if os.Getenv(name) == "" {
			return nil, fmt.Errorf("%s is not set: this provider is for tests, on emulators and a folder that stands for the account", name)
		}
	}
	options := []func(*config.LoadOptions) error{}
	if region := given.text("region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("no region: set it in the provider's block or in AWS_REGION")
	}
	s := &session{region: cfg.Region, account: account(os.Getenv(envAccount)), sqs: sqs.NewFromConfig(cfg)}
	// DynamoDB Local sends no checksum with its error replies.
	s.dynamodb = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
	if blocks := given.blocks("default_tags"); len(blocks) > 0 {
		s.defaultTags, _ = blocks[0]["tags"].(map[string]any)
	}
	return s, nil
}

// arn names a thing of a service as AWS would.
func (s *session) arn(service, thing string) string {
	region := s.region
	if service == "iam" {
		region = ""
	}
	return "arn:aws:" + service + ":" + region + ":" + accountID + ":" + thing
}

func (*standIn) Resources(context.Context) []func() resource.Resource {
	var all []func() resource.Resource
	for _, k := range kinds() {
		all = append(all, func() resource.Resource { return &anyResource{kind: k} })
	}
	return all
}

func (*standIn) DataSources(context.Context) []func() datasource.DataSource {
	var all []func() datasource.DataSource
	for _, k := range dataKinds() {
		all = append(all, func() datasource.DataSource { return &anyData{dataKind: k} })
	}
	return all
}
