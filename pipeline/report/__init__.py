"""One page that a person forwards to their manager: was the bound kept, will it finish, what else could be done.

- **Facts** (`facts`): what the page says, a bounded number of values, worked out by Spark.
- **Plots** (`plots`): SVG whose colours are the page's, so that it follows light and dark.
- **Page** (`page`): one HTML file, nothing loaded from elsewhere, no script.
"""
