package azure

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
)

// networkAPI is the version of Microsoft.Network that is asked.
const networkAPI = "2025-05-01"

// What is looked at of a resource of Microsoft.Network. What is absent or null
// is the zero value, of a list element too; a field of another JSON type is an error.
type (
	reference struct {
		ID string `json:"id"`
	}
	interfaceProperties struct {
		NetworkSecurityGroup *reference `json:"networkSecurityGroup"`
		IPConfigurations     []struct {
			Properties struct {
				PublicIPAddress *reference `json:"publicIPAddress"`
				Subnet          *reference `json:"subnet"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	}
	subnetProperties struct {
		NetworkSecurityGroup *reference `json:"networkSecurityGroup"`
	}
	groupProperties struct {
		SecurityRules []struct {
			Name       string         `json:"name"`
			Properties ruleProperties `json:"properties"`
		} `json:"securityRules"`
	}
	ruleProperties struct {
		Access                string   `json:"access"`
		Direction             string   `json:"direction"`
		Priority              int32    `json:"priority"`
		Protocol              string   `json:"protocol"`
		SourceAddressPrefix   string   `json:"sourceAddressPrefix"`
		SourceAddressPrefixes []string `json:"sourceAddressPrefixes"`
		DestinationPortRange  string   `json:"destinationPortRange"`
		DestinationPortRanges []string `json:"destinationPortRanges"`
	}
)

// readNetworkResource reads the properties of one resource: its group, then
// types and names by turns. It is looked for in the machine's own subscription,
// and names that an answer gave are escaped, so that they lead nowhere else.
func (c *Client) readNetworkResource(ctx context.Context, properties any, group string, names ...string) error {
	if group == "" || slices.Contains(names, "") {
		return errors.New("a network resource without a group or a name")
	}
	path := "subscriptions/" + url.PathEscape(c.subscription) + "/resourceGroups/" + url.PathEscape(group) + "/providers/Microsoft.Network"
	for _, name := range names {
		path += "/" + url.PathEscape(name)
	}
	resp, err := c.resources.GetByID(ctx, path, networkAPI, nil)
	if err != nil {
		return err
	}
	body, err := json.Marshal(resp.Properties)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, properties)
}
