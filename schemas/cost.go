package schemas

// CostURI is the schema of a cost sheet, whose Go type is kernels/cost.Sheet. No
// other document refers to it: costs are no part of any decision.
const CostURI = BaseURI + "schema/cost/v1"
