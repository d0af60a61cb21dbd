package main

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// attributes and blocks are short for what schemas are made of.
type (
	attributes = map[string]schema.Attribute
	blocks     = map[string]schema.Block
)

// Words for texts. A computed value stays the same from one plan to the next.
var (
	requiredText = schema.StringAttribute{Required: true}
	optionalText = schema.StringAttribute{Optional: true}
	computedText = schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
	eitherText   = schema.StringAttribute{Optional: true, Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
	// A change of these makes the resource anew.
	namingText  = schema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
	bindingText = schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
	namedText   = schema.StringAttribute{Optional: true, Computed: true, PlanModifiers: []planmodifier.String{
		stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace(),
	}}

	optionalTexts = schema.SetAttribute{Optional: true, ElementType: types.StringType}
	tagged        = schema.MapAttribute{Optional: true, ElementType: types.StringType}
)

func textDefault(text string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(text)}
}

// Words for numbers and flags.
var (
	requiredNumber = schema.Int64Attribute{Required: true}
	optionalNumber = schema.Int64Attribute{Optional: true}
	computedNumber = schema.Int64Attribute{Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}}
	eitherNumber   = schema.Int64Attribute{Optional: true, Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}}
	optionalFloat  = schema.Float64Attribute{Optional: true}

	requiredFlag = schema.BoolAttribute{Required: true}
	optionalFlag = schema.BoolAttribute{Optional: true}
	eitherFlag   = schema.BoolAttribute{Optional: true, Computed: true, PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()}}
	computedList = schema.ListAttribute{Computed: true, ElementType: types.StringType, PlanModifiers: []planmodifier.List{
		listplanmodifier.UseStateForUnknown(),
	}}
)

func numberDefault(n int64) schema.Int64Attribute {
	return schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(n)}
}

func flagDefault(flag bool) schema.BoolAttribute {
	return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(flag)}
}

// with adds what most resources have.
func with(own attributes, more ...attributes) attributes {
	all := attributes{"id": computedText}
	for _, some := range append(more, own) {
		maps.Copy(all, some)
	}
	return all
}

var (
	regional = attributes{"region": namedText}
	tags     = attributes{
		"tags": tagged,
		// Its plan is made of the tags and the default ones.
		"tags_all": schema.MapAttribute{Optional: true, Computed: true, ElementType: types.StringType},
	}
	named = attributes{"arn": computedText}
)

// listBlock is one block or none: the real provider has no other lists of blocks among those used.
func listBlock(a attributes, b blocks) schema.ListNestedBlock {
	return schema.ListNestedBlock{
		NestedObject: schema.NestedBlockObject{Attributes: a, Blocks: b}, Validators: []validator.List{atMostOne{}},
	}
}

// atMostOne refuses a second block.
type atMostOne struct{}

func (atMostOne) Description(context.Context) string { return "at most one block" }

func (v atMostOne) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (atMostOne) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if len(req.ConfigValue.Elements()) > 1 {
		resp.Diagnostics.AddAttributeError(req.Path, "Too many blocks", "No more than 1 block is allowed.")
	}
}

func setBlock(a attributes, b blocks) schema.SetNestedBlock {
	return schema.SetNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: a, Blocks: b}}
}
