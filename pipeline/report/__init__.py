"""One page that a person forwards to their manager: what moved, was the bound kept, what to set next time and why.

- **Facts** (`facts`, `buckets`, `outlier`): what the page says, a bounded number of values, worked out by Spark.
- **Pictures** (`plots`, `overviews`): drawings in the page's own colours, which follow light and dark.
- **Drawing** (`drawing`, `axes`): each as SVG, and live, by the library that is in the page.
- **Page** (`page`, beside its template, style and script): one HTML file, nothing loaded from elsewhere.
"""
