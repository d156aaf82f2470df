package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	tagging "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"

	terraform "plasmacloud.io/plasmacloud/internal/terraform/aws"
)

// Tags lists what carries a stack's tag.
type Tags struct {
	Environment map[string]string
	Identity    Identity
}

var _ terraform.Tags = Tags{}

// List implements terraform.Tags.
func (t Tags) List(ctx context.Context, stack string) ([]terraform.Tagged, error) {
	config, err := Config(t.Environment, t.Identity)
	if err != nil {
		return nil, err
	}
	pages := tagging.NewGetResourcesPaginator(tagging.NewFromConfig(config), &tagging.GetResourcesInput{
		TagFilters: []types.TagFilter{{Key: aws.String(terraform.TagStack), Values: []string{stack}}},
	})
	var found []terraform.Tagged
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list what has the tag of stack %s: %w", stack, err)
		}
		for _, resource := range page.ResourceTagMappingList {
			one := terraform.Tagged{ARN: aws.ToString(resource.ResourceARN), Tags: map[string]string{}}
			for _, tag := range resource.Tags {
				one.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			}
			found = append(found, one)
		}
	}
	return found, nil
}
