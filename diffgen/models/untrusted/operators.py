"""Operators that a model file may call: functions of tensors, numbers, lists and text.

A list of what is allowed and not of what is not: an operator that a new release of torch brings is refused until
somebody has read what it does. Left out are those that reach for files (``save``, ``from_file``), for other processes,
for the generator of random numbers that all share, or for raw memory (``set_``, ``resize_``, ``_reshape_alias``, which
checks no bounds); those for training and for sparse and nested tensors, which no classifier of images needs; and
``chr`` and ``percentFormat``, which could put together texts for a terminal.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TENSORS = _words(
    """
    abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr adjoint affine_grid_generator
    alias alias_copy all allclose alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan
    arctan2 arctanh argmax argmin argsort argwhere as_strided as_tensor asin asinh atan atan2 atanh atleast_1d
    atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window batch_norm bernoulli bilinear
    bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window
    block_diag bmm broadcast_tensors broadcast_to bucketize can_cast cartesian_prod cat cdist ceil celu chain_matmul
    channel_shuffle chunk clamp clamp_max clamp_min clip clone col2im column_stack combinations complex concat
    concatenate conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution copy copysign corrcoef cos cosh cosine_similarity count_nonzero cov cpu cross cummax
    cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize det detach detach_copy diag diag_embed diagflat
    diagonal diagonal_copy diagonal_scatter diff digamma dist div divide dot dropout dsplit dstack einsum elu embedding
    empty empty_like empty_permuted empty_strided eq equal erf erfc erfinv exp exp2 expand expand_as expand_copy expm1
    exponential eye fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
    fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask feature_alpha_dropout feature_dropout
    fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn
    fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq
    fft_rfftn fill fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp
    frobenius_norm full full_like gather gcd ge gelu geqrf ger glu gradient greater greater_equal grid_sampler
    grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink hardsigmoid
    hardswish hardtanh heaviside histc hsplit hstack hypot i0 igamma igammac im2col imag index index_add index_copy
    index_fill index_put index_reduce index_select inner instance_norm int_repr inverse is_complex is_conj is_contiguous
    is_floating_point is_grad_enabled is_inference is_neg is_nonzero is_same_size is_signed isclose isfinite isin isinf
    isnan isneginf isposinf isreal item kaiser_window kron kthvalue layer_norm lcm ldexp le leaky_relu lerp less
    less_equal lgamma lift lift_fresh lift_fresh_copy linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross
    linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product
    linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu
    linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_norm
    linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet
    linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve
    linalg_vander linalg_vecdot linalg_vector_norm linear linspace log log10 log1p log2 log_sigmoid log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logspace logsumexp
    lstm lstm_cell lt mH mT masked_fill masked_scatter masked_select matmul matrix_H matrix_exp matrix_power max
    max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
    max_unpool2d max_unpool3d maximum mean median meshgrid min minimum mish mm mode moveaxis movedim msort mul
    multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy
    native_channel_shuffle native_dropout native_group_norm native_layer_norm native_norm ne neg negative new_empty
    new_empty_strided new_full new_ones new_zeros nextafter nonzero nonzero_numpy nonzero_static norm norm_except_dim
    normal normal_functional not_equal nuclear_norm numel numpy_T one_hot ones ones_like orgqr outer pad pad_sequence
    pairwise_distance pdist permute permute_copy pinverse pixel_shuffle pixel_unshuffle polar polygamma positive pow
    prelu prod promote_types put q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
    qscheme quantile quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
    quantized_max_pool1d quantized_max_pool2d rad2deg rand rand_like randint randint_like randn randn_like random
    randperm range ravel real reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 remainder renorm
    repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as resolve_conj
    resolve_neg result_type rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round row_stack rrelu
    rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted select
    select_copy select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh size slice slice_copy slice_scatter
    slogdet softmax softplus softshrink sort special_digamma special_entr special_erf special_erfc special_erfcx
    special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
    special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax special_logit
    special_logsumexp special_multigammaln special_ndtr special_ndtri special_polygamma special_psi special_round
    special_sinc special_softmax special_xlog1py special_xlogy special_zeta split split_copy split_with_sizes
    split_with_sizes_copy sqrt square squeeze squeeze_copy stack std std_mean stft istft storage_offset stride sub
    subtract sum sum_to_size svd swapaxes swapdims sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride t
    t_copy take take_along_dim tan tanh tensor tensor_split tensordot threshold tile to topk trace transpose
    transpose_copy trapezoid trapz triangular_solve tril tril_indices triu triu_indices true_divide trunc type_as unbind
    unbind_copy unflatten unfold unfold_copy uniform unique_consecutive unique_dim unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_linear1d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d vander var var_mean vdot view view_as
    view_as_complex view_as_real view_copy vsplit vstack where xlogy zero zeros zeros_like _adaptive_avg_pool2d
    _adaptive_avg_pool3d _addmm_activation _aminmax _assert_async _assert_scalar _assert_tensor_metadata
    _batch_norm_impl_index _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    _conj _conj_physical _convolution _convolution_mode _dim_arange _euclidean_dist _functional_assert_async
    _functional_assert_scalar _fused_rms_norm _is_all_true _is_any_true _linalg_check_errors _linalg_det _linalg_eigh
    _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense _log_softmax _native_batch_norm_legit_no_training
    _native_multi_head_attention _neg_view _pad_circular _pad_enum _prelu_kernel _reshape_copy _safe_softmax
    _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu _shape_as_tensor _softmax _stack
    _to_copy _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_view
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm _weight_norm_interface
    sym_constrain_range sym_constrain_range_for_size
    """
)
# Of Python's own values, which TorchScript has as operators too.
_VALUES = _words(
    """
    Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit Size __and__ __contains__
    __derive_index __getitem__ __iand__ __interpolate __ior__ __is__ __isnot__ __ixor__ __lshift__ __not__ __or__
    __range_length __round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear __upsample_nearest __xor__
    _get_tracing_state _infer_size _is_tracing _list_to_tensor _set_item _size_if_not_equal _tensor_to_list
    _unwrap_optional append broadcast_shapes capitalize clear copy count degrees device dict dim divmod element_size
    endswith expandtabs extend fabs factorial find floordiv format get get_autocast_dtype get_device has_torch_function
    hex insert is_autocast_cpu_enabled is_autocast_enabled is_coalesced is_leaf is_pinned is_scripting
    is_vulkan_available isalnum isalpha isdecimal isdigit islower isnumeric isspace isupper items join keys len list
    ljust lower lstrip mathremainder modf oct ord partition pop popitem radians remove replace reverse rfind rjust
    rpartition rsplit rstrip set_grad_enabled setdefault sorted splitlines startswith str strip swapcase title update
    upper values warn zfill
    """
)
# Of the namespace prim: what TorchScript itself is made of. PythonOp, Print, and what starts threads or asks other
# machines are left out.
_LANGUAGE = _words(
    """
    AutogradAllNonZero AutogradAnyNonZero Constant CreateObject DictConstruct Enter EnumName EnumValue Exit GetAttr If
    ImplicitTensorToNum ListConstruct ListUnpack Loop NumToTensor Param RaiseException Return SetAttr StringIndex
    TupleConstruct TupleIndex TupleSlice TupleUnpack Uninitialized abs data device dtype is_cpu is_cuda is_meta
    is_mkldnn is_mps is_nested is_quantized is_sparse is_xpu isinstance itemsize layout max min rangelist requires_grad
    shape tolist type unchecked_cast unchecked_unwrap_optional unpackTuple
    """
)
_QUANTIZED = _words(
    """
    add add_out add_relu add_relu_out add_scalar add_scalar_out add_scalar_relu add_scalar_relu_out batch_norm
    batch_norm1d batch_norm1d_relu batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu batch_norm_relu cat
    cat_out cat_relu celu clamp conv1d conv1d_dynamic conv1d_prepack conv1d_relu conv1d_unpack conv2d conv2d_add
    conv2d_add_relu conv2d_dilation conv2d_dynamic conv2d_groups conv2d_output_padding conv2d_padding conv2d_prepack
    conv2d_relu conv2d_stride conv2d_transpose conv2d_unpack conv2d_unpack_sizes conv3d conv3d_prepack conv3d_relu
    conv3d_unpack conv_prepack conv_transpose1d conv_transpose1d_prepack conv_transpose1d_unpack conv_transpose2d
    conv_transpose2d_prepack conv_transpose2d_unpack conv_transpose3d conv_transpose3d_prepack conv_transpose3d_unpack
    conv_unpack dropout elu group_norm hardswish instance_norm layer_norm leaky_relu linear linear_dynamic
    linear_dynamic_fp16 linear_leaky_relu linear_prepack linear_prepack_fp16 linear_relu linear_relu_dynamic
    linear_relu_dynamic_fp16 linear_tanh linear_unpack linear_unpack_fp16 matmul max_pool1d max_pool2d mul mul_out
    mul_relu mul_scalar mul_scalar_relu prelu relu6 sigmoid softmax threshold
    """
)
# What the quantization of torch.export programs (PT2E) writes; torch registers it when asked.
_DECOMPOSED = _words(
    """
    choose_qparams choose_qparams_symmetric choose_qparams_per_token choose_qparams_per_token_asymmetric
    convert_element_type dequantize_per_channel dequantize_per_channel_group dequantize_per_tensor dequantize_per_token
    fake_quant_per_channel quantize_per_channel quantize_per_channel_group quantize_per_tensor quantize_per_token
    """
)
_PRIMS = _words(
    """
    abs acos acosh add amax amin as_strided asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor
    broadcast_in_dim cat cbrt ceil clone collapse collapse_view conj conj_physical convert_element_type copy_strided cos
    cosh device_put digamma div empty empty_permuted empty_strided eq erf erf_inv erfc exp exp2 expm1 fill floor fmax
    fmin fmod frexp full full_like gcd ge gt hypot imag iota isfinite item le lgamma log log10 log1p log2 lt maximum
    minimum mul ne neg nextafter normal pow prod real reciprocal remainder reshape rev round rsqrt scalar_tensor
    shift_left sign signbit sin sinh split_dim sqrt squeeze sub sum svd tan tanh transpose trunc uniform var view_of
    where xor_sum zeta
    """
)

# Namespace -> names in it. A function that writes its result into its first argument ends in "_".
ALLOWED: dict[str, frozenset[str]] = {
    "aten": _TENSORS | {f"{name}_" for name in _TENSORS} | _VALUES | {"fill_diagonal_", "requires_grad_"},
    "prim": _LANGUAGE,
    "prims": _PRIMS,
    "quantized": _QUANTIZED,
    "quantized_decomposed": _DECOMPOSED,
}
# Classes written in C++ that hold the weights of quantized layers. Other such classes hold what their authors like.
PACKED_WEIGHTS = frozenset(
    f"__torch__.torch.classes.quantized.{name}PackedParamsBase" for name in ("Conv2d", "Conv3d", "Linear")
)
FOREIGN_CLASSES = "__torch__.torch.classes."


def is_allowed(namespace: str, name: str) -> bool:
    """Whether a file may call the operator ``namespace::name``."""
    return name in ALLOWED.get(namespace, frozenset())
