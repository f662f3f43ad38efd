"""One page that a person forwards to their manager: what moved, was the bound kept, what to set next time and why.

- **Facts** (`facts`, `buckets`, `outlier`): what the page says, a bounded number of values, worked out by Spark.
- **Pictures** (`plots`, `heat_map`): SVG whose colours and font are the page's, so that it follows light and dark.
- **Page** (`page`, `style`): one HTML file, nothing loaded from elsewhere, no script.
"""
